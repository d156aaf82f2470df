package hosted

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

const (
	resourceNodeGroups = "nodegroups"
	resourceMachines   = "machines"
)

func (b *build) ofCluster(resource string) dynamic.ResourceInterface {
	return b.Dynamic.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(b.cluster.Namespace)
}

func (b *build) clusterSelector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: v1alpha1.LabelCluster + "=" + b.cluster.Name}
}

func (b *build) nodeGroups(ctx context.Context) ([]v1alpha1.NodeGroup, error) {
	list, err := b.ofCluster(resourceNodeGroups).List(ctx, b.clusterSelector())
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

// awaitNodes waits until all node groups are what they should be, and the control plane has all of its replicas. The
// further ones start when the nodes are there, or take their time: on a small machine they would only hold up each other.
func (b *build) awaitNodes(ctx context.Context) error {
	if err := b.versionNodes(ctx); err != nil {
		return err
	}
	begun := b.Clock.Now()
	if started := b.stepStarted("nodes"); started != nil {
		begun = started.Time
	}
	watchers := []watcher{b.watchResource(resourceNodeGroups), b.watchControlPlane}
	return b.await(ctx, tolerance/2, watchers, func(ctx context.Context) (bool, string, error) {
		groups, err := b.nodeGroups(ctx)
		if err != nil {
			return false, "", err
		}
		settled, waitsFor, failed := b.settled(groups)
		if settled || failed != nil || b.Clock.Since(begun) > tolerance {
			done, what, err := b.allReplicas(ctx)
			if err != nil || settled {
				return done, what, err
			}
		}
		return false, waitsFor, failed
	})
}

// versionNodes tells the groups which version their nodes are to have: that of the control plane, which runs by now.
func (b *build) versionNodes(ctx context.Context) error {
	offered, err := b.Catalogue()
	if err != nil {
		return err
	}
	version, err := b.version(offered)
	if err != nil {
		return err
	}
	groups, err := b.nodeGroups(ctx)
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"version":%q}}`, version)
	for i := range groups {
		if groups[i].Spec.Version == version || !groups[i].DeletionTimestamp.IsZero() {
			continue
		}
		_, err := b.ofCluster(resourceNodeGroups).Patch(ctx, groups[i].Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			return fmt.Errorf("set the version of node group %s: %w", groups[i].Spec.Group, err)
		}
	}
	return nil
}

// stepStarted is when a step of the task was first begun.
func (b *build) stepStarted(name string) *metav1.Time {
	for _, step := range b.scope.Task.Status.Steps {
		if step.Name == name {
			return step.StartedAt
		}
	}
	return nil
}

func (b *build) allReplicas(ctx context.Context) (bool, string, error) {
	deployment, err := b.scaleOut(ctx)
	if err != nil {
		return false, "", err
	}
	if done, waitsFor := complete(deployment); !done {
		return false, waitsFor, nil
	}
	site, err := b.Site(ctx)
	if err != nil {
		return false, "", err
	}
	_, err = b.ensureService(ctx, site, false) // from now on, only to who is ready
	return err == nil, "", err
}

// settled tells whether the groups are what they should be, or what is missing, or what stands in the way. It counts the
// nodes as it goes.
func (b *build) settled(groups []v1alpha1.NodeGroup) (settled bool, waitsFor string, err error) {
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
	for name := range b.cluster.Spec.NodeGroups {
		if !found[name] {
			missing = append(missing, name+" is not made yet")
		}
	}
	b.scope.SetOutput(provisioner.OutputNodes, strconv.Itoa(int(total)))
	b.scope.SetOutput(provisioner.OutputReadyNodes, strconv.Itoa(int(ready)))
	if len(stalled) > 0 {
		return false, "", fmt.Errorf("%s", strings.Join(stalled, "; "))
	}
	return len(missing) == 0, strings.Join(missing, ", "), nil
}
