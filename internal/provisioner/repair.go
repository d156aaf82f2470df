package provisioner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Auditor is a provisioner that tells what is wrong with a cluster. A repair by it begins with a look, and is refused
// where it could lose data or quorum and nobody has said that it may.
type Auditor interface {
	// Audit returns what is wrong, as far as only the cluster's type knows, and changes nothing; no finding is well.
	// Thorough audits also look at what takes many requests, and at what nobody would notice in between: they are rare.
	// The error is that it could not look.
	Audit(ctx context.Context, c *v1alpha1.Cluster, thorough bool) ([]v1alpha1.Finding, error)
}

// StepAssess is the first step of a repair.
const StepAssess = "assess"

// ErrRefused is a repair that could lose something, and is not forced.
var ErrRefused = errors.New("the repair is refused")

// assess looks at a cluster before anything is changed.
func assess(auditor Auditor) task.Step {
	return task.Step{Name: StepAssess, Run: func(ctx context.Context, scope *task.Scope) error {
		c, ok := scope.Object.(*v1alpha1.Cluster)
		if !ok {
			return task.Permanent(fmt.Errorf("this is no cluster but %T", scope.Object))
		}
		findings, err := auditor.Audit(ctx, c, true)
		if err != nil {
			// The steps that follow look for themselves, and may mend what keeps the audit from looking.
			scope.Log.Warn("cannot audit a cluster before its repair", "error", err)
			scope.Report("cannot look: %v", err)
			return nil
		}
		var found []string
		for _, finding := range findings {
			found = append(found, finding.String())
			if err := refuse(c, finding, scope.Task.Spec.Force); err != nil {
				return task.Permanent(err)
			}
		}
		if len(found) == 0 {
			found = []string{"nothing is wrong"}
		}
		scope.Report("%s", strings.Join(found, "; "))
		return nil
	}}
}

// refuse says why a repair that could lose something is not begun. What no repair mends is not begun by force either.
func refuse(c *v1alpha1.Cluster, finding v1alpha1.Finding, force bool) error {
	switch {
	case finding.Risk == "" || finding.Repairable && force:
		return nil
	case finding.Repairable:
		return fmt.Errorf("%w: %s: %s; `cloud k8s repair %s --force` does it all the same", ErrRefused, finding, finding.Risk, c.Name)
	default:
		return fmt.Errorf("%w: %s: %s; %s", ErrRefused, finding, finding.Risk, finding.Remedy)
	}
}
