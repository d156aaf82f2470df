package cloud

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
)

// abandoned tells whether it was agreed to, by name, that all of a resource is left in the cloud.
func abandoned(object task.Object) bool {
	return object.GetAnnotations()[v1alpha1.AnnotationForget] == object.GetName()
}

// listRemains writes down what is left in the cloud of a resource that is deleted from our record alone. It is a step of its
// own: the list is in the record before the state is forgotten.
func (p *Provisioner) listRemains(ctx context.Context, scope *task.Scope) error {
	if !abandoned(scope.Object) {
		return nil
	}
	stack, err := stackOf(scope.Object)
	if err != nil {
		return err
	}
	resources, err := p.States.Resources(ctx, stack)
	if err != nil {
		return fmt.Errorf("read what there is of %s: %w", stack, err)
	}
	lines := make([]string, 0, len(resources))
	for _, address := range slices.Sorted(maps.Keys(resources)) {
		lines = append(lines, strings.TrimSpace(address+" "+resources[address]))
	}
	scope.SetOutput(provisioner.OutputRemains, strings.Join(lines, "\n"))
	scope.Report("%d resources are left in the cloud", len(lines))
	scope.Log.WarnContext(ctx, "left in the cloud", "stack", stack, "resources", lines)
	return nil
}
