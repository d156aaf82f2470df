package machine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Machines of clusters that are made over SSH boot with nothing but keys. The cluster's task makes those of the control
// plane what they are; the workers are prepared as soon as they run, and join as soon as the cluster says how.

// OverSSH tells whether the machines of a cluster become its nodes by what is done on them over SSH. Those of other
// clusters boot as nodes.
func OverSSH(clusterType v1alpha1.ClusterType) bool {
	return clusterType == v1alpha1.ClusterKubeadm || clusterType == v1alpha1.ClusterK3s
}

// overSSH tells whether the machine is such a one.
func (s *scope) overSSH() bool { return OverSSH(s.cluster.Spec.Type) }

// controlPlane tells whether the machine is one of a control plane, which the cluster's task sets up.
func (s *scope) controlPlane() bool { return s.machine.Spec.Role == v1alpha1.MachineControlPlane }

const hostKeyData = corev1.SSHAuthPrivateKey

func hostKeySecretName(machine string) string { return machine + "-host-key" }

// bareSpec describes a machine that is set up over SSH to its driver.
func (r *Reconciler) bareSpec(ctx context.Context, s *scope) (machine.Spec, error) {
	spec := machine.Spec{Key: s.key(), Labels: s.machineLabels()}
	if _, keyed := s.driver.(machine.Keyed); keyed {
		if err := r.addKeys(ctx, s, &spec); err != nil {
			return machine.Spec{}, err
		}
		image, err := r.nodeImage(s)
		if err != nil {
			return machine.Spec{}, err
		}
		spec.Image = image
	}
	return spec, r.size(s, &spec)
}

// nodeImage is what the machine boots.
func (r *Reconciler) nodeImage(s *scope) (string, error) {
	offered, err := r.Catalogue()
	if err != nil {
		return "", err
	}
	version, err := offered.ResolveVersion(s.version())
	if err != nil {
		return "", fmt.Errorf("%w: %w", machine.ErrInvalid, err)
	}
	return offered.Image(version, release.ImageNode)
}

// version of Kubernetes on the machine.
func (s *scope) version() string {
	for _, version := range []string{s.machine.Spec.Version, s.cluster.Status.Version} {
		if version != "" {
			return version
		}
	}
	return s.cluster.Spec.Version
}

// addKeys lets the cluster's key into the machine, and gives it a host key, so that nobody is believed to be the machine
// who is not, from the first contact on.
func (r *Reconciler) addKeys(ctx context.Context, s *scope, spec *machine.Spec) error {
	keys, err := r.API.CoreV1().Secrets(s.key().Namespace).Get(ctx, sshkey.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return waiting{reason: v1alpha1.ReasonWaiting, message: "waiting for the cluster's SSH key", again: joinInterval}
	}
	if err != nil {
		return fmt.Errorf("read the cluster's SSH key: %w", err)
	}
	current, err := sshkey.Current(keys.Data)
	if err != nil {
		return err
	}
	if spec.HostKey, err = r.hostKey(ctx, s); err != nil {
		return err
	}
	spec.AuthorizedKeys = []string{current.Authorized()}
	return nil
}

// hostKey returns the machine's own host key, and makes it where there is none. It is kept for as long as the machine: an
// attempt to make it that is repeated describes the same machine.
func (r *Reconciler) hostKey(ctx context.Context, s *scope) ([]byte, error) {
	secrets := r.API.CoreV1().Secrets(s.key().Namespace)
	name := hostKeySecretName(s.machine.Name)
	kept, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		private, problem := remote.GenerateKey(s.machine.Name)
		if problem != nil {
			return nil, problem
		}
		kept, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				v1alpha1.LabelCluster: s.cluster.Name, v1alpha1.LabelMachine: s.machine.Name,
			}},
			Data: map[string][]byte{hostKeyData: private},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("keep the machine's host key: %w", err)
	}
	return kept.Data[hostKeyData], nil
}

// dropHostKey removes the host key of a machine that is gone.
func (r *Reconciler) dropHostKey(ctx context.Context, s *scope) error {
	if !s.overSSH() && !s.clusterGone {
		return nil
	}
	err := r.API.CoreV1().Secrets(s.key().Namespace).Delete(ctx, hostKeySecretName(s.machine.Name), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the machine's host key: %w", err)
	}
	return nil
}

// setUp has a worker that runs prepared, and made a node once the cluster can be joined.
func (r *Reconciler) setUp(ctx context.Context, s *scope) {
	if !s.overSSH() || s.controlPlane() || s.found == nil || s.found.State != machine.StateRunning || Joined(s.machine) {
		return
	}
	job, err := r.job(ctx, s)
	switch {
	case err != nil:
		s.setup = Progress{Err: err}
	case r.Setup == nil:
		s.setup = Progress{Err: errors.New("this process sets no machines up")}
	default:
		s.setup = r.Setup.Ensure(job)
	}
}

// job describes what is to be done on the machine, as far as that is known.
func (r *Reconciler) job(ctx context.Context, s *scope) (Job, error) {
	job := Job{Cluster: s.cluster, Machine: s.machine}
	reacher, ok := s.driver.(machine.Reacher)
	if !ok {
		return job, fmt.Errorf("machines of account %s cannot be worked on", s.machine.Spec.Account)
	}
	host, err := reacher.Reach(ctx, s.key())
	if err != nil {
		return job, err
	}
	job.Host = hostsetup.Host{Client: host, Name: s.machine.Name, Address: s.found.Address, Labels: kubeletLabels(s.labels())}
	if s.group != nil {
		job.Host.Taints = s.group.Spec.Template.Taints
	}
	if s.connection == nil {
		return job, nil // its token is not there yet
	}
	join, err := r.join(ctx, s)
	if wait := (waiting{}); errors.As(err, &wait) {
		return job, nil
	}
	if err != nil {
		return job, err
	}
	own, err := r.token(ctx, s, join.CAHash)
	if err != nil {
		return job, err
	}
	job.Join = forVersion(join, s.machine.Spec.Version)
	job.Token, err = own.Bootstrap()
	return job, err
}
