package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission/ledger"
	"plasmacloud.io/plasmacloud/internal/admission/tally"
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
	groups, err := q.nodeGroups(ctx, quotas.project.Name, object.Name)
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
	promised := map[key]usage.Usage{}
	for _, p := range promises {
		if p.Kind == "Cluster" && slices.Contains(projects, p.Project) {
			k := key{p.Project, p.Name}
			promised[k] = usage.Most(promised[k], usage.FromQuota(p.Used))
		}
	}
	err = q.count(ctx, projects, func(counts tally.Counts) {
		for _, project := range projects {
			all = all.Plus(counts.Total(project))
		}
		for k, u := range promised {
			counted := counts.Of(k.project, k.cluster)
			all = all.Plus(usage.Most(counted, u).Minus(counted))
		}
		own = usage.Most(counts.Of(c.project.Name, c.cluster), promised[key{c.project.Name, c.cluster}])
	})
	return all, own, err
}

// nodeGroups are those of a cluster.
func (q *question) nodeGroups(ctx context.Context, project, cluster string) (groups []v1alpha1.NodeGroup, err error) {
	err = q.count(ctx, []string{project}, func(counts tally.Counts) { groups = counts.Groups(project, cluster) })
	return groups, err
}

// count lets look see what the clusters of the projects use: by the tally where there is one, otherwise by counting.
func (q *question) count(ctx context.Context, projects []string, look func(tally.Counts)) error {
	counted := q.tally
	if counted == nil || !counted.Synced() {
		counted = tally.New()
		for _, project := range projects {
			if err := q.countProject(ctx, v1alpha1.NamespacePrefix+project, counted); err != nil {
				return err
			}
		}
	}
	counted.Read(q.catalogue, look)
	return nil
}

func (q *question) countProject(ctx context.Context, namespace string, counted *tally.Tally) error {
	var clusters v1alpha1.ClusterList
	var groups v1alpha1.NodeGroupList
	for _, list := range []client.ObjectList{&clusters, &groups} {
		if err := q.world.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("count clusters: %w", err)
		}
	}
	for i := range clusters.Items {
		counted.Put(&clusters.Items[i])
	}
	for i := range groups.Items {
		counted.Put(&groups.Items[i])
	}
	return nil
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
