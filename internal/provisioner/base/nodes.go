package base

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// Resources of a cluster beside it.
const (
	ResourceNodeGroups = "nodegroups"
	ResourceMachines   = "machines"
)

// OfCluster reaches the objects of one of our kinds beside the cluster.
func (b *Build) OfCluster(resource string) dynamic.ResourceInterface {
	return b.Dynamic.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(b.Cluster.Namespace)
}

// ClusterSelector chooses those of the cluster.
func (b *Build) ClusterSelector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: v1alpha1.LabelCluster + "=" + b.Cluster.Name}
}

// NodeGroups are the cluster's.
func (b *Build) NodeGroups(ctx context.Context) ([]v1alpha1.NodeGroup, error) {
	list, err := b.OfCluster(ResourceNodeGroups).List(ctx, b.ClusterSelector())
	if err != nil {
		return nil, fmt.Errorf("list node groups: %w", err)
	}
	groups := make([]v1alpha1.NodeGroup, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &groups[i]); err != nil {
			return nil, fmt.Errorf("read node group %s: %w", list.Items[i].GetName(), err)
		}
	}
	return groups, nil
}

// AwaitNodes waits until all node groups are what they should be, and so is the rest of the cluster. also is asked about
// the rest, with whether the groups have settled or cannot; while it is not asked otherwise, it is not done.
func (b *Build) AwaitNodes(ctx context.Context, interval time.Duration, watchers []Watcher,
	also func(ctx context.Context, settled, failed bool) (done bool, waitsFor string, err error),
) error {
	if err := errors.Join(b.versionNodes(ctx), b.replaceBroken(ctx)); err != nil {
		return err
	}
	watchers = append([]Watcher{b.WatchResource(ResourceNodeGroups)}, watchers...)
	return b.Await(ctx, interval, watchers, func(ctx context.Context) (bool, string, error) {
		groups, err := b.NodeGroups(ctx)
		if err != nil {
			return false, "", err
		}
		settled, waitsFor, failed := b.Settled(groups)
		done, what, err := also(ctx, settled, failed != nil)
		if err != nil || settled {
			return done, what, err
		}
		return false, waitsFor, failed
	})
}

// versionNodes tells the groups which version their nodes are to have: that of the control plane, which runs by now.
func (b *Build) versionNodes(ctx context.Context) error {
	_, version, err := b.Offered()
	if err != nil {
		return err
	}
	groups, err := b.NodeGroups(ctx)
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"version":%q}}`, version)
	for i := range groups {
		if groups[i].Spec.Version == version || !groups[i].DeletionTimestamp.IsZero() {
			continue
		}
		_, err := b.OfCluster(ResourceNodeGroups).Patch(ctx, groups[i].Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: b.Manager})
		if err != nil {
			return fmt.Errorf("set the version of node group %s: %w", groups[i].Spec.Group, err)
		}
	}
	return nil
}

// Settled tells whether the groups are what they should be, or what is missing, or what stands in the way. It counts the
// nodes as it goes.
func (b *Build) Settled(groups []v1alpha1.NodeGroup) (settled bool, waitsFor string, err error) {
	var total, ready int32
	var missing, stalled []string
	found := map[string]bool{}
	for _, group := range groups {
		found[group.Spec.Group] = true
		s := group.Status
		total, ready = total+s.Replicas, ready+s.ReadyReplicas
		wants := group.Spec.Replicas
		if s.ObservedGeneration == group.Generation && s.Replicas == wants && s.ReadyReplicas == wants && s.UpdatedReplicas == wants {
			continue
		}
		missing = append(missing, fmt.Sprintf("%s has %d of %d nodes ready", group.Spec.Group, s.ReadyReplicas, wants))
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
			stalled = append(stalled, fmt.Sprintf("node group %s: %s", group.Spec.Group, c.Message))
		}
	}
	for name := range b.Cluster.Spec.NodeGroups {
		if !found[name] {
			missing = append(missing, name+" is not made yet")
		}
	}
	b.Scope.SetOutput(provisioner.OutputNodes, strconv.Itoa(int(total)))
	b.Scope.SetOutput(provisioner.OutputReadyNodes, strconv.Itoa(int(ready)))
	if len(stalled) > 0 {
		return false, "", fmt.Errorf("%s", strings.Join(stalled, "; "))
	}
	return len(missing) == 0, strings.Join(missing, ", "), nil
}
