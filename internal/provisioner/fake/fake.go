// Package fake goes through the motions of making a cluster and makes nothing. Its steps take as long, and fail as
// often, as a cluster's annotations say. It is for tests of the platform, and for load tests of thousands of clusters.
package fake

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Annotations of a cluster that change how its steps go.
const (
	// AnnotationStepSeconds is how long each step takes, such as 0.5.
	AnnotationStepSeconds = "fake.plasmacloud.io/step-seconds"
	// AnnotationFailStep is the name of a step that fails, AnnotationFailTimes how often (once where it is not given)
	// before it succeeds.
	AnnotationFailStep  = "fake.plasmacloud.io/fail-step"
	AnnotationFailTimes = "fake.plasmacloud.io/fail-times"
	// AnnotationFailPermanently, set to true, makes that step fail the task.
	AnnotationFailPermanently = "fake.plasmacloud.io/fail-permanently"
)

// reportInterval is how often a step tells how far it is.
const reportInterval = time.Second

// Provisioner makes clusters of type Fake.
type Provisioner struct {
	clock clock.Clock
	// resolve turns what a user wrote, or nothing, into a version in full.
	resolve func(want string) (string, error)
	// duration of each step where the cluster names none.
	duration time.Duration
}

var _ provisioner.Provisioner = (*Provisioner)(nil)

// New returns a provisioner whose steps take the given time unless a cluster says otherwise.
func New(clk clock.Clock, resolve func(want string) (string, error), duration time.Duration) *Provisioner {
	return &Provisioner{clock: clk, resolve: resolve, duration: duration}
}

// effect is what a step does at its end.
type effect func(p *Provisioner, scope *task.Scope, c *v1alpha1.Cluster) error

// Steps implements provisioner.Provisioner.
func (p *Provisioner) Steps(operation v1alpha1.Operation, _ *v1alpha1.Cluster) ([]task.Step, error) {
	switch operation {
	case v1alpha1.OperationCreate:
		return []task.Step{
			p.step("allocate-network", nil), p.step("start-control-plane", setEndpoint), p.step("join-nodes", setNodes),
			p.step("install-addons", nil), p.step("verify", setReady),
		}, nil
	case v1alpha1.OperationUpdate:
		return []task.Step{p.step("apply-changes", setNodes), p.step("verify", setReady)}, nil
	case v1alpha1.OperationScale:
		return []task.Step{p.step("scale-nodes", setNodes), p.step("verify", setReady)}, nil
	case v1alpha1.OperationUpgrade:
		return []task.Step{p.step("upgrade-control-plane", setEndpoint), p.step("upgrade-nodes", setNodes), p.step("verify", setReady)}, nil
	case v1alpha1.OperationRepair:
		return []task.Step{p.step("diagnose", nil), p.step("repair", setNodes), p.step("verify", setReady)}, nil
	case v1alpha1.OperationDelete:
		return []task.Step{p.step("remove-nodes", nil), p.step("remove-control-plane", nil), p.step("release-network", nil)}, nil
	default:
		return nil, provisioner.Unsupported(v1alpha1.ClusterFake, operation, "it does not know the operation")
	}
}

func (p *Provisioner) step(name string, do effect) task.Step {
	return task.Step{Name: name, Run: func(ctx context.Context, scope *task.Scope) error {
		c, ok := scope.Object.(*v1alpha1.Cluster)
		if !ok {
			return task.Permanent(fmt.Errorf("this is no cluster but %T", scope.Object))
		}
		if err := p.pass(ctx, scope, c); err != nil {
			return err
		}
		if err := fail(name, scope, c); err != nil {
			return err
		}
		if do == nil {
			return nil
		}
		return do(p, scope, c)
	}}
}

// pass lets a step's time pass.
func (p *Provisioner) pass(ctx context.Context, scope *task.Scope, c *v1alpha1.Cluster) error {
	duration := p.duration
	if text, ok := c.Annotations[AnnotationStepSeconds]; ok {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || seconds < 0 || seconds > 3600 {
			return task.Permanent(fmt.Errorf("annotation %s: %q is no number of seconds from 0 to 3600", AnnotationStepSeconds, text))
		}
		duration = time.Duration(seconds * float64(time.Second))
	}
	end := p.clock.Now().Add(duration)
	for left := duration; left > 0; left = end.Sub(p.clock.Now()) {
		scope.Report("%d%% done", 100*(duration-left)/duration)
		timer := p.clock.NewTimer(min(left, reportInterval))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return nil
}

// fail fails where the cluster says so.
func fail(name string, scope *task.Scope, c *v1alpha1.Cluster) error {
	if c.Annotations[AnnotationFailStep] != name {
		return nil
	}
	if c.Annotations[AnnotationFailPermanently] == "true" {
		return task.Permanent(fmt.Errorf("annotation %s asks for it", AnnotationFailPermanently))
	}
	times := 1
	if text, ok := c.Annotations[AnnotationFailTimes]; ok {
		parsed, err := strconv.Atoi(text)
		if err != nil || parsed < 0 {
			return task.Permanent(fmt.Errorf("annotation %s: %q is no number of times", AnnotationFailTimes, text))
		}
		times = parsed
	}
	if int(scope.Attempt) > times {
		return nil
	}
	return fmt.Errorf("annotation %s asks for it: attempt %d of %d that fail", AnnotationFailStep, scope.Attempt, times)
}

func setEndpoint(p *Provisioner, scope *task.Scope, c *v1alpha1.Cluster) error {
	version, err := p.resolve(c.Spec.Version)
	if err != nil {
		return task.Permanent(fmt.Errorf("spec.version: %w", err))
	}
	host := c.Spec.Host
	if host == "" {
		host = fmt.Sprintf("%s.%s.fake.invalid", c.Name, c.Namespace)
	}
	scope.SetOutput(provisioner.OutputVersion, version)
	scope.SetOutput(provisioner.OutputEndpoint, "https://"+host+":6443")
	return nil
}

func setNodes(_ *Provisioner, scope *task.Scope, c *v1alpha1.Cluster) error {
	scope.SetOutput(provisioner.OutputNodes, strconv.Itoa(provisioner.Nodes(scope.Task, c)))
	return nil
}

func setReady(_ *Provisioner, scope *task.Scope, c *v1alpha1.Cluster) error {
	scope.SetOutput(provisioner.OutputReadyNodes, strconv.Itoa(provisioner.Nodes(scope.Task, c)))
	return nil
}
