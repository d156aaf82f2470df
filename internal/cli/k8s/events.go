package k8s

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/manifest"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func events(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	return &cobra.Command{
		Use: "events CLUSTER", Short: "List what happened to a cluster and its parts",
		Args:              command.Exactly("CLUSTER"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			cluster, err := kind.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			found, err := of(ctx, s, cluster)
			if err != nil {
				return err
			}
			return show(s, cluster, found)
		},
	}
}

// of lists the events of a cluster, its node groups, machines and tasks, oldest first.
func of(ctx context.Context, s *session.Session, cluster *v1alpha1.Cluster) ([]corev1.Event, error) {
	api, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	own := map[types.UID]bool{cluster.UID: true}
	here := client.InNamespace(cluster.Namespace)
	var groups v1alpha1.NodeGroupList
	var machines v1alpha1.MachineList
	var tasks v1alpha1.TaskList
	var all corev1.EventList
	for list, field := range map[client.ObjectList]string{&groups: "spec.cluster", &machines: "spec.cluster", &tasks: "spec.resource.name"} {
		if err := api.List(ctx, list, here, client.MatchingFields{field: cluster.Name}); err != nil {
			return nil, fmt.Errorf("list the parts of cluster %s: %w", cluster.Name, err)
		}
	}
	if err := api.List(ctx, &all, here); err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	for _, group := range groups.Items {
		own[group.UID] = true
	}
	for _, machine := range machines.Items {
		own[machine.UID] = true
	}
	for _, task := range tasks.Items {
		own[task.UID] = true
	}
	found := slices.DeleteFunc(all.Items, func(e corev1.Event) bool { return !own[e.InvolvedObject.UID] })
	slices.SortStableFunc(found, func(a, b corev1.Event) int {
		return cmp.Or(last(a).Compare(last(b)), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// last is when an event happened the last time.
func last(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

func times(e corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.Count, 1)
}

func show(s *session.Session, cluster *v1alpha1.Cluster, found []corev1.Event) error {
	if len(found) == 0 && s.Flags.Output == output.FormatTable {
		s.Note("there are no events of cluster %s; they are kept for an hour", cluster.Name)
		return nil
	}
	view := output.View{}
	table := output.Table{Header: []string{"LAST SEEN", "TYPE", "REASON", "OBJECT", "TIMES", "MESSAGE"}}
	shown := make([]any, 0, len(found))
	for i := range found {
		e := &found[i]
		object, err := manifest.Show(e, corev1.SchemeGroupVersion.WithKind("Event"))
		if err != nil {
			return err
		}
		shown = append(shown, object)
		view.Names = append(view.Names, e.Name)
		table.Rows = append(table.Rows, []string{
			output.Age(s.Now(), metav1.NewTime(last(*e))), e.Type, e.Reason, e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, strconv.Itoa(int(times(*e))), e.Message,
		})
	}
	view.Value = map[string]any{"apiVersion": "v1", "kind": "List", "items": shown}
	view.Table = []output.Section{{Table: table}}
	return s.Printer().Print(view)
}
