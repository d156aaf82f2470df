// Package org is the commands about organizations, the platform's customers.
package org

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/quota"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Kind is organizations.
func Kind() *resource.Kind[*v1alpha1.Organization] {
	return &resource.Kind[*v1alpha1.Organization]{
		Name: "Organization", Noun: "organization", Plural: "organizations", Global: true,
		New:     func() *v1alpha1.Organization { return &v1alpha1.Organization{} },
		NewList: func() client.ObjectList { return &v1alpha1.OrganizationList{} },
		Columns: []resource.Column[*v1alpha1.Organization]{
			resource.Text("TITLE", func(o *v1alpha1.Organization) string { return o.Spec.DisplayName }),
			resource.Text("PROJECTS", func(o *v1alpha1.Organization) string { return strconv.Itoa(int(o.Status.Projects)) }),
			resource.Text("CLUSTERS", func(o *v1alpha1.Organization) string { return quota.Clusters(o.Status.Used) }),
			resource.Text("NODES", func(o *v1alpha1.Organization) string { return quota.Nodes(o.Status.Used) }),
			resource.Age[*v1alpha1.Organization](),
		},
		Conditions: func(o *v1alpha1.Organization) []metav1.Condition { return o.Status.Conditions },
		Details: func(o *v1alpha1.Organization, _ time.Time) []output.Section {
			return quota.Details(o.Spec.Quota, o.Status.Used)
		},
	}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	kind := Kind()
	return command.Alias(command.Group("org", "Organizations, which own projects and users",
		create(s, kind), list(s, kind), kind.Get(s), kind.Delete(s)), "orgs", "organization", "organizations")
}
