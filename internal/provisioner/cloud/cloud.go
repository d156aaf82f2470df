// Package cloud makes clusters of type EKS, GKE and AKS, and the networks and buckets beside them, in accounts of clouds.
// Each is a stack of OpenTofu's. A step asks for an operation on the stack and follows it; deployers, which outlive the
// process that asked, do the work: they plan, have the plan checked, and apply that very plan. What differs from cloud to
// cloud is a translator.
package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/deployer"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Deployments do operations on stacks, one at a time for each.
type Deployments interface {
	// Ensure begins an operation, unless it has begun, and tells how far it is. One that waits for another operation on the
	// same stack is Pending. To remove a stack, the variables that it has had will do where none are given. The failure of an attempt is told once: asked again, another attempt begins.
	Ensure(ctx context.Context, request deployer.Request) (deployer.Report, error)
	// Cancel asks for the end of an operation that is under way, and tells whether it has come. The stack's state is kept.
	// Again is fine, and so is an operation that nobody knows: it has ended.
	Cancel(ctx context.Context, stack, id string) (ended bool, err error)
	// Known tells whether there was ever an operation on a stack.
	Known(ctx context.Context, stack string) (bool, error)
	// Forget removes the record of a stack that is gone. Again is fine.
	Forget(ctx context.Context, stack string) error
}

// States are those of the stacks.
type States interface {
	// Outputs of a stack; none where it has no state yet.
	Outputs(ctx context.Context, stack string) (map[string]json.RawMessage, error)
	// Delete forgets the state of a stack of which nothing is left. Again is fine.
	Delete(ctx context.Context, stack string) error
	// Resources of a stack that are in the cloud, by address, with the cloud's names for them; none where it has no state.
	Resources(ctx context.Context, stack string) (map[string]string, error)
	// Abandon forgets the state of a stack whatever is left of it. Again is fine.
	Abandon(ctx context.Context, stack string) error
}

// Resources are what a stack is a part of, as they are now.
type Resources interface {
	Account(ctx context.Context, namespace, name string) (*v1alpha1.Account, error)
	Network(ctx context.Context, namespace, name string) (*v1alpha1.Network, error)
	Cluster(ctx context.Context, namespace, name string) (*v1alpha1.Cluster, error)
}

// Config is what a provisioner works with.
type Config struct {
	Deployments Deployments
	States      States
	Resources   Resources
	// Environment is an account's credentials, as of now, and what else is needed to reach its cloud.
	Environment func(ctx context.Context, cloud string, account deployer.Account) (map[string]string, error)
	// Addons installs what clusters need once they are there.
	Addons Installer
	// Poll is how often a running operation is looked at; a second where it is zero.
	Poll time.Duration
}

// patience is how long a step follows an operation before it lets its worker do something else for a moment.
const patience = 10 * time.Second

// Provisioner makes clusters, networks and buckets in clouds.
type Provisioner struct{ Config }

var (
	_ provisioner.Provisioner = (*Provisioner)(nil)
	_ task.Planner            = Stacks{}
)

// New returns a provisioner.
func New(config Config) (*Provisioner, error) {
	if config.Deployments == nil || config.States == nil || config.Resources == nil || config.Environment == nil || config.Addons == nil {
		return nil, errors.New("make provisioner for clouds: deployments, states, resources, the environment of accounts and an installer of add-ons are needed")
	}
	if config.Poll == 0 {
		config.Poll = time.Second
	}
	return &Provisioner{config}, nil
}

// Steps implements provisioner.Provisioner.
func (p *Provisioner) Steps(operation v1alpha1.Operation, _ *v1alpha1.Cluster) ([]task.Step, error) {
	steps, err := p.steps(operation)
	switch operation {
	case v1alpha1.OperationCreate, v1alpha1.OperationUpdate, v1alpha1.OperationUpgrade, v1alpha1.OperationRepair:
		steps = append(steps, task.Step{Name: "add-ons", Run: p.addons})
	case v1alpha1.OperationDelete:
		steps = append([]task.Step{{Name: vacate, Run: p.vacate}}, steps...)
	}
	return steps, err
}

// Stacks plans the tasks of networks and buckets.
type Stacks struct{ *Provisioner }

// Steps implements task.Planner.
func (s Stacks) Steps(t *v1alpha1.Task, _ task.Object) ([]task.Step, error) {
	return s.steps(t.Spec.Operation)
}

// steps are the same for everything that is a stack.
func (p *Provisioner) steps(operation v1alpha1.Operation) ([]task.Step, error) {
	switch operation {
	case v1alpha1.OperationCreate, v1alpha1.OperationUpdate, v1alpha1.OperationScale, v1alpha1.OperationUpgrade, v1alpha1.OperationRepair:
		return []task.Step{{Name: "plan", Run: p.plan, Cancel: p.cancel}, {Name: "apply", Run: p.apply, Cancel: p.cancel}}, nil
	case v1alpha1.OperationPlan:
		return []task.Step{{Name: "plan", Run: p.preview, Cancel: p.cancel}}, nil
	case v1alpha1.OperationDelete:
		return []task.Step{
			{Name: "plan-removal", Run: p.planRemoval}, {Name: "remove", Run: p.remove}, {Name: "list-remains", Run: p.listRemains}, {Name: "forget", Run: p.forget},
		}, nil
	}
	return nil, task.Permanent(fmt.Errorf("there is no operation %s on infrastructure in clouds", operation))
}

// plan has the operation begin, and waits until its plan is known and found good.
func (p *Provisioner) plan(ctx context.Context, scope *task.Scope) error {
	request, err := p.request(ctx, scope)
	if err != nil {
		return err
	}
	scope.SetOutput(provisioner.OutputInfraVersion, request.InfraVersion)
	scope.SetOutput(provisioner.OutputInventory, "Stack/"+request.Stack)
	report, err := p.follow(ctx, scope, request, deployer.Report.Planned)
	if err != nil {
		return err
	}
	scope.SetOutput(provisioner.OutputPlan, shorten(report.Plan))
	scope.Report("%s", summary(report.Plan))
	return nil
}

// maxPlan is how much of a plan is kept in the record.
const maxPlan = 16 << 10

func shorten(plan string) string {
	if len(plan) <= maxPlan {
		return plan
	}
	return plan[:maxPlan] + "…\n" + summary(plan)
}

// summary is the last line of a plan: how much of what.
func summary(plan string) string {
	lines := strings.Split(strings.TrimSpace(plan), "\n")
	return lines[len(lines)-1]
}

// apply waits until the operation has ended, and writes down what came of it.
func (p *Provisioner) apply(ctx context.Context, scope *task.Scope) error {
	request, err := p.request(ctx, scope)
	if err != nil {
		return err
	}
	report, err := p.follow(ctx, scope, request, deployer.Report.Finished)
	if err != nil {
		return err
	}
	return publish(scope, request, report.Outputs)
}

// planRemoval is plan, unless nothing was ever made.
func (p *Provisioner) planRemoval(ctx context.Context, scope *task.Scope) error {
	removable, err := p.removable(ctx, scope)
	if err != nil || !removable {
		return err
	}
	return p.plan(ctx, scope)
}

// removable tells whether there is something in the cloud that is to be removed.
func (p *Provisioner) removable(ctx context.Context, scope *task.Scope) (bool, error) {
	stack, err := stackOf(scope.Object)
	if err != nil || abandoned(scope.Object) {
		return false, err
	}
	return p.Deployments.Known(ctx, stack)
}

// remove waits until everything is gone.
func (p *Provisioner) remove(ctx context.Context, scope *task.Scope) error {
	removable, err := p.removable(ctx, scope)
	if err != nil || !removable {
		return err
	}
	request, err := p.request(ctx, scope)
	if err != nil {
		return err
	}
	_, err = p.follow(ctx, scope, request, deployer.Report.Finished)
	return err
}

// forget removes what is kept of a stack that is gone, or is left to itself.
func (p *Provisioner) forget(ctx context.Context, scope *task.Scope) error {
	stack, err := stackOf(scope.Object)
	if err != nil {
		return err
	}
	remove := p.States.Delete
	if abandoned(scope.Object) {
		remove = p.States.Abandon // after which a deployer that is still at work writes nothing any more
	}
	if err := remove(ctx, stack); err != nil {
		return err
	}
	if err := p.Deployments.Forget(ctx, stack); err != nil {
		return err
	}
	scope.SetOutput(provisioner.OutputInventory, "")
	return nil
}

// follow asks for an operation, and tells how it fares until it is far enough.
func (p *Provisioner) follow(ctx context.Context, scope *task.Scope, request deployer.Request, enough func(deployer.Report) bool) (deployer.Report, error) {
	ticker := time.NewTicker(p.Poll)
	defer ticker.Stop()
	for until := time.Now().Add(patience); ; {
		report, err := p.Deployments.Ensure(ctx, request)
		switch {
		case err != nil:
			return report, err
		case report.Phase == deployer.Failed && report.Permanent:
			return report, task.Permanent(errors.New(report.Error))
		case report.Phase == deployer.Failed:
			return report, errors.New(report.Error)
		case enough(report):
			return report, nil
		case time.Now().After(until):
			return report, task.Wait(p.Poll, "%s", report.Message)
		}
		scope.Report("%s", report.Message)
		select {
		case <-ctx.Done():
			return report, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
