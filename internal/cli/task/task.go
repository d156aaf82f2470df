// Package task is the commands about tasks: what the platform does, how far it is, and what went wrong.
package task

import (
	"strconv"
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

// Kind is tasks.
func Kind() *resource.Kind[*v1alpha1.Task] {
	return &resource.Kind[*v1alpha1.Task]{
		Name: "Task", Noun: "task", Plural: "tasks",
		New:     func() *v1alpha1.Task { return &v1alpha1.Task{} },
		NewList: func() client.ObjectList { return &v1alpha1.TaskList{} },
		Columns: []resource.Column[*v1alpha1.Task]{
			resource.Text("OPERATION", func(t *v1alpha1.Task) string { return string(t.Spec.Operation) }),
			resource.Text("KIND", func(t *v1alpha1.Task) string { return t.Spec.Resource.Kind }),
			resource.Text("RESOURCE", func(t *v1alpha1.Task) string { return t.Spec.Resource.Name }),
			resource.Text("STATUS", func(t *v1alpha1.Task) string { return string(t.Status.Phase) }),
			resource.Text("PROGRESS", func(t *v1alpha1.Task) string { return t.Status.Progress }),
			resource.Text("STEP", func(t *v1alpha1.Task) string { return t.Status.Step }),
			resource.Age[*v1alpha1.Task](),
		},
		Details: steps,
	}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	kind := Kind()
	byResource := &resource.Filter{Flag: "cluster", Usage: "only those of this `cluster`", Field: "spec.resource.name"}
	show := kind.Get(s)
	show.Use, show.Aliases = "show TASK", []string{"get"}
	return command.Alias(command.Group("task", "Tasks: what the platform does, and how far it is",
		kind.List(s, byResource), show, watch(s, kind), cancel(s, kind)), "tasks")
}

// steps are what the task does, one after the other.
func steps(t *v1alpha1.Task, now time.Time) []output.Section {
	var about [][]string
	if t.Spec.Reason != "" {
		about = append(about, []string{"Reason:", t.Spec.Reason})
	}
	if t.Spec.Operation == v1alpha1.OperationRepair {
		about = append(about, []string{"Asked for by:", asker(t)})
	}
	about = append(about, [][]string{
		{"Attempts:", strconv.Itoa(int(t.Status.Attempts))}, {"Worker:", output.Or(t.Status.Worker)}, {"Error:", output.Or(t.Status.Error)},
	}...)
	if t.Status.RetryAt != nil && !t.Status.Phase.Finished() {
		about = append(about, []string{"Tries again:", output.Until(now, t.Status.RetryAt)})
	}
	sections := []output.Section{{Table: output.Table{Rows: about}}}
	if len(t.Status.Steps) == 0 {
		return sections
	}
	table := output.Table{Indent: "  ", Header: []string{"STEP", "STATUS", "ATTEMPTS", "TOOK", "MESSAGE"}}
	for _, step := range t.Status.Steps {
		table.Rows = append(table.Rows, []string{
			step.Name, output.Or(string(step.Phase)), strconv.Itoa(int(step.Attempts)), took(step, now), step.Message,
		})
	}
	return append(sections, output.Section{Heading: "Steps:", Table: table})
}

// asker tells who asked for a repair.
func asker(t *v1alpha1.Task) string {
	switch {
	case t.Spec.Automatic:
		return "an audit"
	case t.Spec.Force:
		return "a person, by force"
	}
	return "a person"
}

func took(step v1alpha1.StepStatus, now time.Time) string {
	if step.StartedAt == nil {
		return "-"
	}
	end := metav1.NewTime(now)
	if step.FinishedAt != nil {
		end = *step.FinishedAt
	}
	return end.Sub(step.StartedAt.Time).Round(100 * time.Millisecond).String()
}
