package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

// disk is what each of the control plane's machines has for its images, etcd and logs.
var disk = resource.MustParse("20Gi")

// ensureMachines makes the control plane's machines, all at once, and waits until they run. Those that are lost leave
// first.
func (b *build) ensureMachines(ctx context.Context) error {
	if err := b.settleLost(ctx); err != nil {
		return err
	}
	wanted := int(b.Cluster.Spec.ControlPlane.Replicas)
	watchers := []base.Watcher{b.WatchResource(base.ResourceMachines)}
	err := b.Await(ctx, 5*time.Second, watchers, func(ctx context.Context) (bool, string, error) {
		machines, err := b.controlPlane(ctx)
		if err != nil {
			return false, "", err
		}
		for range wanted - len(machines) {
			if err := b.makeMachine(ctx); err != nil {
				return false, "", err
			}
		}
		waitsFor := b.awaited(machines)
		return waitsFor == "" && len(machines) >= wanted, waitsFor, stalled(machines)
	})
	if err != nil {
		return err
	}
	return b.chooseFirst(ctx)
}

// controlPlane are the control plane's machines that are not going, ordered by name.
func (b *build) controlPlane(ctx context.Context) ([]v1alpha1.Machine, error) {
	all, err := b.machines(ctx)
	return slices.DeleteFunc(all, func(m v1alpha1.Machine) bool {
		return m.Spec.Role != v1alpha1.MachineControlPlane || m.DeletionTimestamp != nil
	}), err
}

// machines are all of the cluster.
func (b *build) machines(ctx context.Context) ([]v1alpha1.Machine, error) {
	list, err := b.OfCluster(base.ResourceMachines).List(ctx, b.ClusterSelector())
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	machines := make([]v1alpha1.Machine, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &machines[i]); err != nil {
			return nil, fmt.Errorf("read machine %s: %w", list.Items[i].GetName(), err)
		}
	}
	slices.SortFunc(machines, func(a, b v1alpha1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return machines, nil
}

// makeMachine makes one more. Its name is never used again: what is left of an old machine is not taken for its.
func (b *build) makeMachine(ctx context.Context) error {
	offered, version, err := b.Offered()
	if err != nil {
		return err
	}
	account, err := b.account(ctx)
	if err != nil {
		return err
	}
	instanceType := b.Cluster.Spec.ControlPlane.InstanceType
	size, err := offered.NodeSize(v1alpha1.NodeGroupTemplate{InstanceType: instanceType})
	if err != nil {
		return task.Permanent(fmt.Errorf("spec.controlPlane.instanceType: %w", err))
	}
	m := &v1alpha1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: b.Owned(newName(b.Cluster.Name)),
		Spec: v1alpha1.MachineSpec{
			Cluster: b.Cluster.Name, Role: v1alpha1.MachineControlPlane, Account: account, InstanceType: instanceType,
			Resources: size, EphemeralStorage: &disk, Version: version,
		},
	}
	content, err := apply.Typed(m)
	if err != nil {
		return err
	}
	if _, err := b.OfCluster(base.ResourceMachines).Create(ctx, content, metav1.CreateOptions{FieldManager: b.Manager}); err != nil {
		return fmt.Errorf("make machine %s: %w", m.Name, err)
	}
	b.Scope.Log.Info("a machine of the control plane is made", "machine", m.Name)
	return nil
}

func newName(cluster string) string {
	const most, suffix = 63, 5
	name := cluster + "-control-plane"
	return name[:min(len(name), most-suffix-1)] + "-" + rand.String(suffix)
}

// account is where the cluster's machines come from: that of its network.
func (b *build) account(ctx context.Context) (string, error) {
	content, err := b.OfCluster("networks").Get(ctx, b.Cluster.Spec.Network, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", task.Permanent(fmt.Errorf("spec.network: there is no network %q in this project", b.Cluster.Spec.Network))
	}
	if err != nil {
		return "", fmt.Errorf("read network %s: %w", b.Cluster.Spec.Network, err)
	}
	network := &v1alpha1.Network{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, network); err != nil {
		return "", fmt.Errorf("read network %s: %w", b.Cluster.Spec.Network, err)
	}
	return network.Spec.Account, nil
}

// awaited names what the machines still need to be worked on.
func (b *build) awaited(machines []v1alpha1.Machine) string {
	var waiting []string
	for i := range machines {
		m := &machines[i]
		if m.Status.Address != "" {
			continue
		}
		text := m.Name + " is being made"
		if ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Message != "" {
			text = m.Name + ": " + ready.Message
		}
		waiting = append(waiting, text)
	}
	return strings.Join(waiting, "; ")
}

// stalled is why machines will not be made, until a person acts.
func stalled(machines []v1alpha1.Machine) error {
	var problems []error
	for i := range machines {
		ready := meta.FindStatusCondition(machines[i].Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || machines[i].Status.ID != "" {
			continue
		}
		switch ready.Reason {
		case v1alpha1.ReasonMachineNoCapacity, v1alpha1.ReasonMachineInvalid, v1alpha1.ReasonUnsupported:
			problems = append(problems, fmt.Errorf("machine %s: %s", machines[i].Name, ready.Message))
		}
	}
	return errors.Join(problems...)
}

// lost tells whether a machine is gone, or will never run again.
func lost(m *v1alpha1.Machine) bool {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && (ready.Reason == v1alpha1.ReasonMachineLost || ready.Reason == v1alpha1.ReasonMachineFailed)
}

// chooseFirst enters the machine that a new control plane begins with.
func (b *build) chooseFirst(ctx context.Context) error {
	members, err := b.members(ctx)
	if err != nil || len(members) > 0 {
		return err
	}
	machines, err := b.controlPlane(ctx)
	if err != nil {
		return err
	}
	if len(machines) == 0 {
		return errors.New("the control plane's machines are gone")
	}
	return b.enter(ctx, &machines[0])
}

// remove deletes a machine of the control plane; its controller removes what is left of it.
func (b *build) remove(ctx context.Context, m *v1alpha1.Machine) error {
	err := b.OfCluster(base.ResourceMachines).Delete(ctx, m.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(m.UID))})
	if base.Gone(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove machine %s: %w", m.Name, err)
	}
	return nil
}
