package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
)

// preview finds out what a change would do, and changes nothing.
func (p *Provisioner) preview(ctx context.Context, scope *task.Scope) error {
	if err := change(scope); err != nil {
		return task.Permanent(err)
	}
	request, err := p.request(ctx, scope)
	if err != nil {
		return lastly(scope, err)
	}
	report, err := p.follow(ctx, scope, request, deployer.Report.Finished)
	if report.Phase == deployer.Failed {
		return lastly(scope, err)
	}
	if err != nil {
		return err
	}
	if report.Preview == nil { // which is not to be taken for nothing to do
		return task.Permanent(errors.New("the deployer has not told what it would do: is it of an older version?"))
	}
	result, err := json.Marshal(resultOf(request, report))
	if err != nil {
		return err
	}
	scope.SetOutput(provisioner.OutputPlan, shorten(report.Plan))
	scope.SetOutput(v1alpha1.OutputPlanResult, string(result))
	scope.Report("%s", summary(report.Plan))
	return nil
}

// attempts is how often it is tried to look before that has failed.
const attempts = 3

// lastly lets an error be the last one after some attempts: a person waits for the answer.
func lastly(scope *task.Scope, err error) error {
	if scope.Attempt >= attempts {
		return task.Permanent(err)
	}
	return err
}

// maxFields is how many resources a plan may touch for it to be kept in the record what of them would change.
const maxFields = 200

func resultOf(request deployer.Request, report deployer.Report) v1alpha1.PlanResult {
	result := v1alpha1.PlanResult{InfraVersion: request.InfraVersion, Changes: []v1alpha1.PlannedChange{}}
	result.Refused, result.Consent = report.Preview.Refused, report.Preview.Consent
	for _, change := range report.Preview.Changes {
		planned := v1alpha1.PlannedChange{Address: change.Address, Type: change.Type, Effect: string(change.Effect), Reason: change.Reason, Fields: change.Fields}
		if len(report.Preview.Changes) > maxFields {
			planned.Fields = nil
		}
		result.Changes = append(result.Changes, planned)
	}
	return result
}

// change makes the step's own copy of the resource what the task plans it to be.
func change(scope *task.Scope) error {
	patch := []byte(scope.Task.Spec.Change)
	if len(patch) == 0 {
		return nil
	}
	switch object := scope.Object.(type) {
	case *v1alpha1.Network:
		return merge(&object.Spec, patch)
	case *v1alpha1.Bucket:
		return merge(&object.Spec, patch)
	case *v1alpha1.Cluster:
		var numbers struct {
			NodeGroups map[string]map[string]json.RawMessage `json:"nodeGroups"`
		}
		if err := json.Unmarshal(patch, &numbers); err != nil {
			return fmt.Errorf("read the change that is planned: %w", err)
		}
		for name, group := range numbers.NodeGroups {
			if _, scaled := group["replicas"]; scaled || group == nil {
				delete(scope.Task.Spec.Replicas, name) // which is what it has, and not what it is planned to have
			}
		}
		return merge(&object.Spec, patch)
	}
	return fmt.Errorf("a change of a %T cannot be planned", scope.Object)
}

// merge applies a JSON merge patch.
func merge[T any](spec *T, patch []byte) error {
	before, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return fmt.Errorf("read the change that is planned: %w", err)
	}
	var changed T
	if err := json.Unmarshal(after, &changed); err != nil {
		return fmt.Errorf("read the change that is planned: %w", err)
	}
	*spec = changed
	return nil
}

// cancel has the deployer come to its end, and waits for that.
func (p *Provisioner) cancel(ctx context.Context, scope *task.Scope) error {
	stack, err := stackOf(scope.Object)
	if err != nil {
		return err
	}
	ended, err := p.Deployments.Cancel(ctx, stack, string(scope.Task.UID))
	if err != nil {
		return err
	}
	if !ended {
		return task.Wait(p.Poll, "cancelled: waits for what the cloud is just making")
	}
	return nil
}
