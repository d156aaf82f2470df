package admission

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// find reads an object; it is false where there is none.
func (q *question) find(ctx context.Context, namespace, name string, object client.Object) (bool, error) {
	err := q.world.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// parent reads an object that another one shall belong to. What it returns besides is wrong with the other one's field.
// Remedy tells how to make the parent.
func (q *question) parent(ctx context.Context, at *field.Path, namespace, name string, object client.Object, remedy string) (*field.Error, error) {
	found, err := q.find(ctx, namespace, name, object)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return field.Invalid(at, name, "there is none of this name"+inProject(namespace)+"; "+remedy), nil
	case !object.GetDeletionTimestamp().IsZero():
		return field.Invalid(at, name, "it is being deleted; name another one"), nil
	}
	return nil, nil
}

func inProject(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in project " + strings.TrimPrefix(namespace, v1alpha1.NamespacePrefix)
}

// home is the project whose namespace an object is in. An object of ours has no business anywhere else.
func (q *question) home(ctx context.Context, object client.Object) (*v1alpha1.Project, *field.Error, error) {
	at, namespace := field.NewPath("metadata", "namespace"), object.GetNamespace()
	name, ok := strings.CutPrefix(namespace, v1alpha1.NamespacePrefix)
	if !ok {
		return nil, field.Invalid(at, namespace, fmt.Sprintf("this is no project's namespace; use that of a project, %s<project>", v1alpha1.NamespacePrefix)), nil
	}
	home := &v1alpha1.Project{}
	found, err := q.find(ctx, "", name, home)
	switch {
	case err != nil:
		return nil, nil, err
	case !found:
		return nil, field.Invalid(at, namespace, fmt.Sprintf("there is no project %s; create it with `cloud project create %s`", name, name)), nil
	case !home.DeletionTimestamp.IsZero():
		return nil, field.Invalid(at, namespace, fmt.Sprintf("project %s is being deleted; use another one", name)), nil
	}
	return home, nil, nil
}

// atHome is the check of kinds that only have to be in a project.
func (q *question) atHome(ctx context.Context, kind string, object client.Object) error {
	if !q.creates() {
		return nil
	}
	_, wrong, err := q.home(ctx, object)
	if err != nil || wrong == nil {
		return err
	}
	return invalid(kind, object, field.ErrorList{wrong})
}

func task(ctx context.Context, q *question, object, _ *v1alpha1.Task) error {
	return q.atHome(ctx, "Task", object)
}

func machine(ctx context.Context, q *question, object, _ *v1alpha1.Machine) error {
	if !q.creates() {
		return nil
	}
	if err := q.atHome(ctx, "Machine", object); err != nil {
		return err
	}
	var wrong field.ErrorList
	for _, parent := range []struct {
		field, name string
		object      client.Object
		remedy      string
	}{
		{"cluster", object.Spec.Cluster, &v1alpha1.Cluster{}, "create the cluster, and its machines come with it"},
		{"account", object.Spec.Account, &v1alpha1.Account{}, fmt.Sprintf("create it with `cloud account create %s`", object.Spec.Account)},
	} {
		missing, err := q.parent(ctx, field.NewPath("spec", parent.field), object.Namespace, parent.name, parent.object, parent.remedy)
		if err != nil {
			return err
		}
		wrong = add(wrong, missing)
	}
	return invalid("Machine", object, wrong)
}

func add(list field.ErrorList, wrong *field.Error) field.ErrorList {
	if wrong == nil {
		return list
	}
	return append(list, wrong)
}
