// Package project is the commands about projects, the homes of clusters and networks.
package project

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/quota"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Kind is projects.
func Kind() *resource.Kind[*v1alpha1.Project] {
	return &resource.Kind[*v1alpha1.Project]{
		Name: "Project", Noun: "project", Plural: "projects", Global: true,
		New:     func() *v1alpha1.Project { return &v1alpha1.Project{} },
		NewList: func() client.ObjectList { return &v1alpha1.ProjectList{} },
		Columns: []resource.Column[*v1alpha1.Project]{
			resource.Text("ORGANIZATION", func(p *v1alpha1.Project) string { return p.Spec.Organization }),
			resource.Text("NAMESPACE", func(p *v1alpha1.Project) string { return p.Status.Namespace }),
			resource.Text("CLUSTERS", func(p *v1alpha1.Project) string { return quota.Clusters(p.Status.Used) }),
			resource.Text("NODES", func(p *v1alpha1.Project) string { return quota.Nodes(p.Status.Used) }),
			resource.Text("STATUS", func(p *v1alpha1.Project) string { return string(p.Status.Phase) }),
			resource.Age[*v1alpha1.Project](),
		},
		Conditions: func(p *v1alpha1.Project) []metav1.Condition { return p.Status.Conditions },
		Details: func(p *v1alpha1.Project, _ time.Time) []output.Section {
			return quota.Details(p.Spec.Quota, p.Status.Used)
		},
	}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	kind := Kind()
	return command.Alias(command.Group("project", "Projects, the homes of clusters and networks",
		create(s, kind), list(s, kind), kind.Get(s), kind.Delete(s), use(s, kind)), "projects")
}

// visible lists the projects that the user may see. The API shows all to administrators and none to others, who know
// theirs by their memberships.
func visible(ctx context.Context, s *session.Session, kind *resource.Kind[*v1alpha1.Project]) ([]*v1alpha1.Project, error) {
	all, err := kind.Items(ctx, s)
	if !apierrors.IsForbidden(err) {
		return all, err
	}
	me, ask := s.Whoami(ctx)
	if ask != nil {
		return nil, err
	}
	var mine []*v1alpha1.Project
	for _, membership := range me.Projects {
		project, err := kind.Fetch(ctx, s, membership.Project)
		if err != nil {
			project = &v1alpha1.Project{
				ObjectMeta: metav1.ObjectMeta{Name: membership.Project},
				Spec:       v1alpha1.ProjectSpec{Organization: me.Organization},
				Status:     v1alpha1.ProjectStatus{Namespace: v1alpha1.NamespacePrefix + membership.Project},
			}
		}
		mine = append(mine, project)
	}
	return mine, nil
}
