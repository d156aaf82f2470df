// Package instance is the commands about instances, the machines that clusters run on.
package instance

import (
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Kind is machines.
func Kind() *resource.Kind[*v1alpha1.Machine] {
	return &resource.Kind[*v1alpha1.Machine]{
		Name: "Machine", Noun: "instance", Plural: "instances",
		New:     func() *v1alpha1.Machine { return &v1alpha1.Machine{} },
		NewList: func() client.ObjectList { return &v1alpha1.MachineList{} },
		Columns: []resource.Column[*v1alpha1.Machine]{
			resource.Text("CLUSTER", func(m *v1alpha1.Machine) string { return m.Spec.Cluster }),
			resource.Text("GROUP", func(m *v1alpha1.Machine) string { return m.Spec.NodeGroup }),
			resource.Text("ROLE", func(m *v1alpha1.Machine) string { return string(m.Spec.Role) }),
			resource.Text("TYPE", func(m *v1alpha1.Machine) string { return m.Spec.InstanceType }),
			resource.Text("ADDRESS", func(m *v1alpha1.Machine) string { return m.Status.Address }),
			resource.Text("STATUS", func(m *v1alpha1.Machine) string { return string(m.Status.Phase) }),
			resource.Age[*v1alpha1.Machine](),
		},
		Conditions: func(m *v1alpha1.Machine) []metav1.Condition { return m.Status.Conditions },
		Details:    details,
	}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	kind := Kind()
	byCluster := &resource.Filter{Flag: "cluster", Usage: "only those of this `cluster`", Field: "spec.cluster"}
	return command.Alias(command.Group("instance", "Instances, the machines that clusters run on",
		kind.List(s, byCluster), kind.Get(s), console(s, kind)), "instances", "machine", "machines")
}

func details(m *v1alpha1.Machine, _ time.Time) []output.Section {
	rows := [][]string{
		{"Account:", m.Spec.Account}, {"Provider's ID:", output.Or(m.Status.ID)}, {"Node:", output.Or(m.Status.NodeName)}, {"Version:", output.Or(m.Spec.Version)},
	}
	if m.Spec.Resources.CPU != nil {
		rows = append(rows, []string{"CPU:", m.Spec.Resources.CPU.String()})
	}
	if m.Spec.Resources.Memory != nil {
		rows = append(rows, []string{"Memory:", m.Spec.Resources.Memory.String()})
	}
	if m.Spec.EphemeralStorage != nil {
		rows = append(rows, []string{"Storage:", m.Spec.EphemeralStorage.String()})
	}
	return []output.Section{{Table: output.Table{Rows: rows}}}
}
