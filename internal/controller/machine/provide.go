package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/machine"
)

// Where `k8shost agent` on a machine finds what it needs.
const (
	configFile = "/etc/k8shost/config.yaml"
	tokenFile  = "/etc/k8shost/token"
)

// waiting is a machine that cannot be made yet, for a reason that is nobody's fault.
type waiting struct {
	reason, message string
	again           time.Duration // zero where an event tells
}

func (w waiting) Error() string { return w.message }

// provide finds the machine, or makes it. Whether it was ever made is in the status: one that was, and is no longer
// there, is lost, and not made again.
func (r *Reconciler) provide(ctx context.Context, s *scope) error {
	if s.driver == nil {
		return waiting{reason: v1alpha1.ReasonUnsupported, message: fmt.Sprintf("there is no account %s, or this version makes no machines at its provider", s.machine.Spec.Account), again: invalidInterval}
	}
	if s.machine.Status.ID != "" {
		found, err := s.driver.Get(ctx, s.key())
		if err != nil && !errors.Is(err, machine.ErrNotFound) {
			return err
		}
		s.found = found
		return nil
	}
	if s.cluster.Status.Endpoint == "" && !s.controlPlane() {
		return waiting{reason: v1alpha1.ReasonWaiting, message: "waiting for the endpoint of the cluster's API"}
	}
	if !s.current() {
		return waiting{reason: v1alpha1.ReasonWaiting, message: "the group's description has changed before the machine was made"}
	}
	spec, err := r.spec(ctx, s)
	if err != nil {
		return err
	}
	s.found, err = s.driver.Create(ctx, spec)
	if errors.Is(err, machine.ErrConflict) {
		// An earlier version of the platform may have made it, with an end before it could say so.
		found, problem := s.driver.Get(ctx, spec.Key)
		if problem != nil || found.State == machine.StateDeleting {
			return errors.Join(err, problem)
		}
		s.found, err = found, nil
	}
	return err
}

// join reads what the machines of the cluster have in common to join it.
func (r *Reconciler) join(ctx context.Context, s *scope) (bootstrap.Join, error) {
	secret, err := r.API.CoreV1().Secrets(s.key().Namespace).Get(ctx, bootstrap.JoinSecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return bootstrap.Join{}, waiting{reason: v1alpha1.ReasonWaiting, message: "waiting for the cluster to say how machines join it", again: joinInterval}
	}
	if err != nil {
		return bootstrap.Join{}, fmt.Errorf("read how machines join: %w", err)
	}
	return bootstrap.ParseJoin(secret.Data[bootstrap.JoinSecretKey])
}

// spec describes the machine to its driver.
func (r *Reconciler) spec(ctx context.Context, s *scope) (machine.Spec, error) {
	if s.overSSH() {
		return r.bareSpec(ctx, s)
	}
	join, err := r.join(ctx, s)
	if err != nil {
		return machine.Spec{}, err
	}
	m := s.machine.Spec
	join = forVersion(join, m.Version)
	own, err := r.token(ctx, s, join.CAHash)
	if err != nil {
		return machine.Spec{}, err
	}
	options := bootstrap.NodeOptions{Name: s.machine.Name, TokenFile: tokenFile, Labels: kubeletLabels(s.labels())}
	if s.group != nil {
		options.Taints = s.group.Spec.Template.Taints
	}
	config, err := bootstrap.AgentConfig(join, options)
	if err != nil {
		return machine.Spec{}, err
	}
	spec := machine.Spec{
		Key: s.key(), Image: join.NodeImage, Labels: s.machineLabels(),
		Files: map[string][]byte{configFile: config, tokenFile: []byte(own.Format() + "\n")},
	}
	return spec, r.size(s, &spec)
}

// machineLabels are what the machine goes by at its provider.
func (s *scope) machineLabels() map[string]string {
	return map[string]string{v1alpha1.LabelCluster: s.cluster.Name, v1alpha1.LabelNodeGroup: s.machine.Spec.NodeGroup, v1alpha1.LabelMachine: s.machine.Name}
}

// size fills in what the machine has.
func (r *Reconciler) size(s *scope, spec *machine.Spec) error {
	m := s.machine.Spec
	if m.Resources.CPU == nil || m.Resources.Memory == nil || m.EphemeralStorage == nil {
		return fmt.Errorf("%w: spec.resources and spec.ephemeralStorage: CPU, memory and disk are needed", machine.ErrInvalid)
	}
	spec.CPU, spec.Memory, spec.Disk = *m.Resources.CPU, *m.Resources.Memory, *m.EphemeralStorage
	if s.group != nil {
		for _, gpu := range s.group.Spec.Template.GPUs {
			spec.GPUs = append(spec.GPUs, gpu.Name)
		}
	}
	if m.InstanceType == "" {
		return nil
	}
	offered, err := r.Catalogue()
	if err != nil {
		return err
	}
	instanceType, err := offered.InstanceType(m.InstanceType)
	if err != nil {
		return fmt.Errorf("%w: %w", machine.ErrInvalid, err)
	}
	series, err := offered.SeriesOf(instanceType)
	if err != nil {
		return fmt.Errorf("%w: %w", machine.ErrInvalid, err)
	}
	spec.DedicatedCPU = series.Has(catalogue.DedicatedCPU)
	spec.OvercommittedMemory = series.Has(catalogue.OvercommittedMemory)
	return nil
}

// forVersion is how machines of another version than the control plane's join: images of nodes are tagged with it.
func forVersion(join bootstrap.Join, version string) bootstrap.Join {
	if version == "" || version == join.KubernetesVersion {
		return join
	}
	if name, ok := strings.CutSuffix(join.NodeImage, join.KubernetesVersion); ok {
		join.NodeImage = name + version
	}
	join.KubernetesVersion = version
	return join
}
