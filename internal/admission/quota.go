package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission/ledger"
	"plasmacloud.io/plasmacloud/internal/usage"
)

// claim is a request for more: what a cluster uses before and after it.
type claim struct {
	project       *v1alpha1.Project
	cluster       string
	before, after usage.Usage
	// refuse makes the refusal, of the object that was asked for.
	refuse func(format string, values ...any) error
}

// clusterQuota admits a new cluster, or a change of one, if there is room for it.
func (q *question) clusterQuota(ctx context.Context, object, old *v1alpha1.Cluster) error {
	quotas, err := q.quotas(ctx, object.Namespace)
	if err != nil || quotas == nil {
		return err
	}
	groups, err := q.nodeGroups(ctx, object.Namespace)
	if err != nil {
		return err
	}
	c := claim{
		project: quotas.project, cluster: object.Name,
		after:  usage.Of(object, groups, q.catalogue),
		refuse: func(format string, values ...any) error { return forbidden("clusters", object, format, values...) },
	}
	if old != nil {
		c.before = usage.Of(old, groups, q.catalogue)
	}
	return q.claim(ctx, quotas, c)
}

// claim admits what takes no more than before, or has room in the quotas of project and organization.
func (q *question) claim(ctx context.Context, quotas *quotas, c claim) error {
	bounds, err := q.bounds(ctx, quotas, c)
	if err != nil || len(bounds) == 0 {
		return err
	}
	return q.ledger.Change(ctx, c.project.Spec.Organization, func(promises []ledger.Promise) ([]ledger.Promise, error) {
		for _, b := range bounds {
			used, own, err := q.used(ctx, b.projects, c, promises)
			if err != nil {
				return nil, err
			}
			if excess := usage.Exceeds(b.quota, used, own, c.after); len(excess) > 0 {
				return nil, c.refuse("it exceeds the quota of %s: %s; delete or shrink what is not needed, or ask an administrator for more", b.of, excess)
			}
		}
		if q.dryRun {
			return promises, nil
		}
		return append(promises, ledger.Promise{Project: c.project.Name, Kind: "Cluster", Name: c.cluster, Used: c.after.Quota()}), nil
	})
}

// quotas are those of a project and of its organization.
type quotas struct {
	project      *v1alpha1.Project
	organization *v1alpha1.Organization
}

// quotas reads those that count in a namespace; nil where nothing is bounded, as counting takes time.
func (q *question) quotas(ctx context.Context, namespace string) (*quotas, error) {
	found := &quotas{project: &v1alpha1.Project{}, organization: &v1alpha1.Organization{}}
	if ok, err := q.find(ctx, "", strings.TrimPrefix(namespace, v1alpha1.NamespacePrefix), found.project); err != nil || !ok {
		return nil, err
	}
	if _, err := q.find(ctx, "", found.project.Spec.Organization, found.organization); err != nil {
		return nil, err
	}
	if found.project.Spec.Quota == nil && found.organization.Spec.Quota == nil {
		return nil, nil
	}
	return found, nil
}

// bound is a quota and the projects that share it.
type bound struct {
	of       string
	quota    *v1alpha1.Quota
	projects []string
}

// bounds are the quotas that the claim takes more of.
func (q *question) bounds(ctx context.Context, quotas *quotas, c claim) ([]bound, error) {
	var bounds []bound
	if quota := quotas.project.Spec.Quota; usage.Grows(quota, c.before, c.after) {
		bounds = append(bounds, bound{"project " + c.project.Name, quota, []string{c.project.Name}})
	}
	quota := quotas.organization.Spec.Quota
	if !usage.Grows(quota, c.before, c.after) {
		return bounds, nil
	}
	var projects v1alpha1.ProjectList
	if err := q.world.List(ctx, &projects, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	shared := bound{of: "organization " + quotas.organization.Name, quota: quota}
	for i := range projects.Items {
		if projects.Items[i].Spec.Organization == quotas.organization.Name {
			shared.projects = append(shared.projects, projects.Items[i].Name)
		}
	}
	return append(bounds, shared), nil
}

// used is what all clusters of the projects use, those that are only promised included, and how much of it is the
// claim's own cluster.
func (q *question) used(ctx context.Context, projects []string, c claim, promises []ledger.Promise) (all, own usage.Usage, err error) {
	type key struct{ project, cluster string }
	each := map[key]usage.Usage{}
	for _, project := range projects {
		var clusters v1alpha1.ClusterList
		namespace := v1alpha1.NamespacePrefix + project
		if err := q.world.List(ctx, &clusters, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return all, own, fmt.Errorf("list clusters: %w", err)
		}
		groups, err := q.nodeGroups(ctx, namespace)
		if err != nil {
			return all, own, err
		}
		byCluster := map[string][]v1alpha1.NodeGroup{}
		for i := range groups {
			byCluster[groups[i].Spec.Cluster] = append(byCluster[groups[i].Spec.Cluster], groups[i])
		}
		for i := range clusters.Items {
			name := clusters.Items[i].Name
			each[key{project, name}] = usage.Of(&clusters.Items[i], byCluster[name], q.catalogue)
		}
	}
	for _, p := range promises {
		if p.Kind == "Cluster" && slices.Contains(projects, p.Project) {
			k := key{p.Project, p.Name}
			each[k] = usage.Most(each[k], usage.FromQuota(p.Used))
		}
	}
	for _, u := range each {
		all = all.Plus(u)
	}
	return all, each[key{c.project.Name, c.cluster}], nil
}

func (q *question) nodeGroups(ctx context.Context, namespace string) ([]v1alpha1.NodeGroup, error) {
	var groups v1alpha1.NodeGroupList
	if err := q.world.List(ctx, &groups, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list node groups: %w", err)
	}
	return groups.Items, nil
}

// forget takes back the promises of a cluster that is deleted: it is there to be seen, or was never made.
func (q *question) forget(ctx context.Context, object *v1alpha1.Cluster) error {
	quotas, err := q.quotas(ctx, object.Namespace)
	if err != nil || quotas == nil || q.dryRun {
		return err
	}
	return q.ledger.Change(ctx, quotas.project.Spec.Organization, func(promises []ledger.Promise) ([]ledger.Promise, error) {
		return slices.DeleteFunc(promises, func(p ledger.Promise) bool { return p.Is(quotas.project.Name, "Cluster", object.Name) }), nil
	})
}
