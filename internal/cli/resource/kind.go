// Package resource is the verbs that work the same way on every kind of the management API (list, get, delete, and the
// end of every create), a file a verb. What a kind is called and which columns it has is said once, in a Kind.
package resource

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Column of a kind's table, after its name. They are the columns that kubectl shows.
type Column[T client.Object] struct {
	Name  string
	Value func(object T, now time.Time) string
}

// Kind is a kind of the management API as the command line knows it.
type Kind[T client.Object] struct {
	Name   string // in the API
	Noun   string // for people
	Plural string
	// Global kinds are in no project.
	Global  bool
	New     func() T
	NewList func() client.ObjectList
	Columns []Column[T]
	// Conditions of an object; nil for a kind without.
	Conditions func(T) []metav1.Condition
	// Details are what get shows besides the columns; may be nil.
	Details func(object T, now time.Time) []output.Section
	// Related is what get shows besides that has to be asked for; may be nil.
	Related func(ctx context.Context, s *session.Session, object T) ([]output.Section, error)
	// Tasks tells whether tasks bring the kind's objects about.
	Tasks bool
}

// GVK of the kind.
func (k *Kind[T]) GVK() schema.GroupVersionKind { return v1alpha1.GroupVersion.WithKind(k.Name) }

// Age is the last column of every kind.
func Age[T client.Object]() Column[T] {
	return Column[T]{Name: "AGE", Value: func(object T, now time.Time) string { return output.Age(now, object.GetCreationTimestamp()) }}
}

// Text is a column of what a function says; a dash where it says nothing.
func Text[T client.Object](name string, value func(T) string) Column[T] {
	return Column[T]{Name: name, Value: func(object T, _ time.Time) string { return output.Or(value(object)) }}
}

// namespace of the kind's objects: the project's, or none.
func (k *Kind[T]) namespace(s *session.Session) (string, error) {
	if k.Global {
		return "", nil
	}
	return s.Namespace()
}

// Fetch gets an object by its name. Where there is none, it says what was probably meant.
func (k *Kind[T]) Fetch(ctx context.Context, s *session.Session, name string) (T, error) {
	object := k.New()
	namespace, err := k.namespace(s)
	if err != nil {
		return object, err
	}
	api, err := s.Client(ctx)
	if err != nil {
		return object, err
	}
	err = api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return object, k.missing(ctx, s, name)
	}
	if err != nil {
		return object, fmt.Errorf("get %s %s: %w", k.Noun, name, err)
	}
	return object, nil
}

func (k *Kind[T]) missing(ctx context.Context, s *session.Session, name string) error {
	meant := ""
	if names, err := k.names(ctx, s); err == nil {
		meant = command.DidYouMean(name, names, "")
	}
	where := ""
	if project, err := s.Project(); err == nil && !k.Global {
		where = " in project " + project
	}
	return exit.NotFoundf("", "there is no %s %q%s%s", k.Noun, name, where, meant)
}

// Items lists the kind's objects.
func (k *Kind[T]) Items(ctx context.Context, s *session.Session, opts ...client.ListOption) ([]T, error) {
	api, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	list := k.NewList()
	if err := api.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("list %s: %w", k.Plural, err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	items := make([]T, 0, len(objects))
	for _, object := range objects {
		item, ok := object.(T)
		if !ok {
			return nil, fmt.Errorf("list %s: got a %T", k.Plural, object)
		}
		items = append(items, item)
	}
	return items, nil
}

func (k *Kind[T]) names(ctx context.Context, s *session.Session) ([]string, error) {
	namespace, err := k.namespace(s)
	if err != nil {
		return nil, err
	}
	items, err := k.Items(ctx, s, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, item := range items {
		names = append(names, item.GetName())
	}
	return names, nil
}

// completionTime is how long a shell waits for names.
const completionTime = 3 * time.Second

// Complete completes names of the kind's objects: for arguments, as many as there may be.
func (k *Kind[T]) Complete(s *session.Session, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		names, err := k.names(ctx, s)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteFlag completes names of the kind's objects for a flag.
func (k *Kind[T]) CompleteFlag(s *session.Session, cmd *cobra.Command, flag string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, k.Complete(s, 0)) // fails for a flag that is not there, which a test would notice
}

// projectOf is the project whose namespace an object is in.
func projectOf(object client.Object) string {
	return strings.TrimPrefix(object.GetNamespace(), v1alpha1.NamespacePrefix)
}
