package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// replicas is the number of nodes that each group should have.
func (s *scope) replicas() map[string]int32 {
	replicas := map[string]int32{}
	for name, template := range s.cluster.Spec.NodeGroups {
		replicas[name] = Replicas(template)
	}
	for i := range s.groups {
		if _, ok := replicas[s.groups[i].Spec.Group]; ok {
			replicas[s.groups[i].Spec.Group] = s.groups[i].Spec.Replicas
		}
	}
	return replicas
}

// scaled tells whether groups are asked to have other numbers of nodes than the cluster was brought to. One that was
// brought up before its numbers were kept is taken to have them.
func (s *scope) scaled() bool {
	return s.cluster.Status.AppliedReplicas != nil && !maps.Equal(s.replicas(), s.cluster.Status.AppliedReplicas)
}

// groupsHash is another one whenever a group was changed, even if it was changed back.
func (s *scope) groupsHash() string {
	var content []string
	for i := range s.groups {
		content = append(content, fmt.Sprintf("%s/%d", s.groups[i].UID, s.groups[i].Generation))
	}
	slices.Sort(content)
	return shortHash([]byte(strings.Join(content, ",")))
}

// syncNodeGroups makes the cluster's node groups what its spec says. A group's number of nodes belongs to the group once
// it is there (kubectl scale and autoscalers set it); where the spec names one, it follows.
func (r *Reconciler) syncNodeGroups(ctx context.Context, s *scope) error {
	if !s.cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	have := map[string]*v1alpha1.NodeGroup{}
	for i := range s.groups {
		have[s.groups[i].Spec.Group] = &s.groups[i]
	}
	for name, template := range s.cluster.Spec.NodeGroups {
		if group := have[name]; group != nil {
			if err := r.updateNodeGroup(ctx, group, template); err != nil {
				return err
			}
			delete(have, name)
			continue
		}
		if err := r.createNodeGroup(ctx, s.cluster, name, template); err != nil {
			return err
		}
	}
	for name, group := range have {
		if err := client.IgnoreNotFound(r.Delete(ctx, group)); err != nil {
			return fmt.Errorf("delete node group %s: %w", name, err)
		}
	}
	return nil
}

// followNodeGroups writes the numbers of groups that were scaled by themselves into the spec, so that both say the same.
// If somebody changes the spec at the same time, it is that which counts.
func (r *Reconciler) followNodeGroups(ctx context.Context, s *scope) error {
	before := s.cluster.DeepCopy()
	for i := range s.groups {
		group := &s.groups[i]
		template, ok := s.cluster.Spec.NodeGroups[group.Spec.Group]
		known := group.Spec.Template.Replicas // by the spec, when the group was brought in line with it
		if !ok || template.Replicas == nil || known == nil || *known != *template.Replicas || group.Spec.Replicas == *template.Replicas {
			continue
		}
		if group.Spec.Replicas < template.MinReplicas || group.Spec.Replicas > template.MaxReplicas {
			continue // the bounds were changed; the group is brought within them
		}
		template.Replicas = &group.Spec.Replicas
		s.cluster.Spec.NodeGroups[group.Spec.Group] = template
	}
	if equality.Semantic.DeepEqual(before.Spec, s.cluster.Spec) {
		return nil
	}
	if err := r.Patch(ctx, s.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("follow node groups: %w", err)
	}
	return nil
}

func (r *Reconciler) createNodeGroup(ctx context.Context, c *v1alpha1.Cluster, name string, template v1alpha1.NodeGroupTemplate) error {
	group := &v1alpha1.NodeGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: c.Name + "-" + name, Namespace: c.Namespace,
			Labels: map[string]string{v1alpha1.LabelCluster: c.Name, v1alpha1.LabelNodeGroup: name},
		},
		Spec: v1alpha1.NodeGroupSpec{Cluster: c.Name, Group: name, Replicas: Replicas(template), Template: template},
	}
	if err := controllerutil.SetControllerReference(c, group, r.Scheme()); err != nil {
		return err
	}
	if err := r.Create(ctx, group); err != nil {
		return fmt.Errorf("create node group %s: %w", name, err)
	}
	return nil
}

func (r *Reconciler) updateNodeGroup(ctx context.Context, group *v1alpha1.NodeGroup, template v1alpha1.NodeGroupTemplate) error {
	before := group.DeepCopy()
	group.Spec.Template = template
	if template.Replicas != nil {
		group.Spec.Replicas = *template.Replicas
	}
	group.Spec.Replicas = min(max(group.Spec.Replicas, template.MinReplicas), template.MaxReplicas)
	if equality.Semantic.DeepEqual(before.Spec, group.Spec) {
		return nil
	}
	if err := r.Patch(ctx, group, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("update node group %s: %w", group.Spec.Group, err)
	}
	return nil
}
