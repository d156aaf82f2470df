package admission

import (
	"context"
	"encoding/json"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/usage"
)

// nodeGroup decides on what people do to a group; the platform's own changes follow a cluster that was admitted.
func nodeGroup(ctx context.Context, q *question, object, old *v1alpha1.NodeGroup) error {
	if q.deletes() {
		return nil
	}
	if err := q.atHome(ctx, "NodeGroup", object); err != nil {
		return err
	}
	at := field.NewPath("spec")
	owner := &v1alpha1.Cluster{}
	missing, err := q.parent(ctx, at.Child("cluster"), object.Namespace, object.Spec.Cluster, owner, "create the cluster, and its groups come with it")
	if err != nil || missing != nil {
		return orInvalid(err, "NodeGroup", object, missing)
	}
	described, ok := owner.Spec.NodeGroups[object.Spec.Group]
	if !ok {
		return invalid("NodeGroup", object, field.ErrorList{field.Invalid(at.Child("group"), object.Spec.Group,
			fmt.Sprintf("cluster %s has no group of this name; add it to the cluster's spec.nodeGroups", owner.Name))})
	}
	changed := old == nil || !equality.Semantic.DeepEqual(old.Spec.Template, object.Spec.Template)
	if changed && !equality.Semantic.DeepEqual(described, object.Spec.Template) {
		return invalid("NodeGroup", object, field.ErrorList{field.Forbidden(at.Child("template"),
			fmt.Sprintf("a group is described by its cluster; change spec.nodeGroups of cluster %s", owner.Name))})
	}
	return q.groupQuota(ctx, owner, object)
}

// scale decides on the scale subresource: kubectl scale and autoscalers.
func scale(ctx context.Context, q *question, request admission.Request) error {
	wanted := &autoscalingv1.Scale{}
	if err := json.Unmarshal(request.Object.Raw, wanted); err != nil {
		return fmt.Errorf("decode scale: %w", err)
	}
	group := &v1alpha1.NodeGroup{}
	found, err := q.find(ctx, request.Namespace, request.Name, group)
	if err != nil || !found {
		return err // the API server knows that it is not there
	}
	group.Spec.Replicas = wanted.Spec.Replicas
	owner := &v1alpha1.Cluster{}
	found, err = q.find(ctx, group.Namespace, group.Spec.Cluster, owner)
	if err != nil || !found {
		return err // its cluster is gone, and it goes too
	}
	return q.groupQuota(ctx, owner, group)
}

// groupQuota admits a change of a group's size if there is room for it.
func (q *question) groupQuota(ctx context.Context, owner *v1alpha1.Cluster, object *v1alpha1.NodeGroup) error {
	quotas, err := q.quotas(ctx, object.Namespace)
	if err != nil || quotas == nil {
		return err
	}
	if err := q.consult(); err != nil {
		return err
	}
	before, err := q.nodeGroups(ctx, quotas.project.Name, owner.Name)
	if err != nil {
		return err
	}
	after := []v1alpha1.NodeGroup{*object}
	for i := range before {
		if before[i].Name != object.Name {
			after = append(after, before[i])
		}
	}
	return q.claim(ctx, quotas, claim{
		project: quotas.project, cluster: owner.Name,
		before: usage.Of(owner, before, q.catalogue), after: usage.Of(owner, after, q.catalogue),
		refuse: func(format string, values ...any) error { return forbidden("nodegroups", object, format, values...) },
	})
}
