package deployer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/cloudapi"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/state"
	configuration "plasmacloud.io/plasmacloud/terraform"
)

// Paths of the services below the address that deployers are given.
const (
	PathOrders = "/deployments"
	PathStates = "/states"
)

// reportInterval is the least time between two reports of progress, lastReport how long the last one is tried.
const (
	reportInterval = time.Second
	lastReport     = 15 * time.Minute
)

// Cloud is what a deployer has to know of a cloud.
type Cloud struct {
	// Provider is the name of the provider that its configurations use.
	Provider string
	// Rules are what its plans have to keep.
	Rules []terraform.Rule
	// Finder finds what an earlier attempt has left behind; nil where nobody can.
	Finder func(order *Order) (terraform.Finder, error)
}

// Config is what the program is told.
type Config struct {
	Server  string // address of the platform's service
	Token   string
	CA      []byte
	Stack   string
	Turn    Turn
	Release string // folder of the release
	Work    string // folder to work in
	Clouds  map[string]Cloud
	Log     *slog.Logger
	// Platform is whom it works for; the service at Server where it is nil.
	Platform Platform
}

// deployment is one run.
type deployment struct {
	Config
	order     *Order
	cloud     Cloud
	workspace *terraform.Workspace

	mu       sync.Mutex
	current  Report
	reported time.Time
}

// Run does one attempt at one operation. Its error is for the log; what matters was reported.
func Run(ctx context.Context, config Config) error {
	if config.Platform == nil {
		client, err := newClient(config.Server+PathOrders, config.Token, config.CA, config.Stack, config.Turn)
		if err != nil {
			return err
		}
		config.Platform = client
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	d := &deployment{Config: config, current: Report{Turn: config.Turn, Host: host}}
	defer d.clean()
	if d.order, err = d.Platform.Order(ctx); err != nil {
		return err
	}
	err = d.run(ctx)
	if errors.Is(err, ErrReplaced) {
		return err
	}
	if err != nil {
		var refused *terraform.PolicyError
		d.current.Phase, d.current.Error, d.current.Permanent = Failed, err.Error(), errors.As(err, &refused)
	} else {
		d.current.Phase = Succeeded
	}
	d.current.Message = ""
	last, cancel := ending(ctx)
	defer cancel()
	return errors.Join(err, d.Platform.Report(last, d.current))
}

// ending is for what has to be told when all is done, also by one who is asked to end.
func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastReport)
}

func (d *deployment) run(ctx context.Context) error {
	var known bool
	if d.cloud, known = d.Clouds[d.order.Cloud]; !known {
		return fmt.Errorf("this deployer knows no cloud %q", d.order.Cloud)
	}
	if err := d.tell(ctx, func(r *Report) { r.Phase, r.Message = Planning, "preparing" }); err != nil {
		return err
	}
	workspace, err := d.open()
	if err != nil {
		return err
	}
	d.workspace = workspace
	if err := workspace.Init(ctx); err != nil {
		return err
	}
	if d.order.Backend != nil && d.order.Operation != Plan { // which changes nothing that the platform would have to know
		err = d.mirrored(ctx, workspace)
	} else {
		err = d.operate(ctx, workspace)
	}
	if err != nil {
		return err
	}
	return workspace.Close()
}

// mirrored does the operation on a stack whose state the account keeps, and copies that for the platform: before, as an
// earlier attempt may not have come to it, and after, whatever came of it.
func (d *deployment) mirrored(ctx context.Context, workspace *terraform.Workspace) error {
	copied, err := newMirror(d.Server+PathStates+"/"+d.Stack, d.Token, d.CA, d.order.Operation)
	if err != nil {
		return err
	}
	if err := copied.hold(ctx); err != nil {
		return err
	}
	update := func(ctx context.Context) (overtaken bool, err error) {
		raw, err := workspace.Pull(ctx)
		if err != nil {
			return false, err
		}
		return copied.update(ctx, raw)
	}
	overtaken, err := update(ctx)
	begun := err == nil
	if begun {
		d.order.Adopt = d.order.Adopt || overtaken
		err = d.operate(ctx, workspace)
	}
	last, cancel := ending(ctx)
	defer cancel()
	if begun && !errors.Is(err, ErrReplaced) {
		_, failed := update(last)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, copied.release(last))
}

// operate plans, has the plan checked, and applies it.
func (d *deployment) operate(ctx context.Context, workspace *terraform.Workspace) error {
	plan, err := d.plan(ctx, workspace)
	var locked *terraform.LockError
	if errors.As(err, &locked) && d.left(locked) {
		if err := d.unlock(ctx, workspace, locked); err != nil {
			return err
		}
		plan, err = d.plan(ctx, workspace)
	}
	if err != nil {
		return err
	}
	d.current.Plan, d.current.Changes = plan.String(), len(plan.Changes)
	policy := terraform.Policy{
		Consent: d.order.Consent, OpenAPI: d.order.OpenAPI, DeletionProtection: d.order.DeletionProtection, Rules: d.cloud.Rules,
	}
	if d.order.Operation == Destroy {
		policy.Consent = []string{"*"} // removing everything is what was asked for
	}
	err = policy.Check(plan)
	if d.order.Operation == Plan {
		d.preview(plan, policy, err)
		return nil
	}
	if err != nil {
		return err
	}
	if err := d.tell(ctx, func(r *Report) { r.Phase, r.Message = Applying, fmt.Sprintf("0/%d", len(plan.Changes)) }); err != nil {
		return err
	}
	return d.apply(ctx, workspace, plan)
}

// plan finds out what is to be done, once what was left behind belongs to the stack.
func (d *deployment) plan(ctx context.Context, workspace *terraform.Workspace) (*terraform.Plan, error) {
	if err := d.adopt(ctx, workspace); err != nil {
		return nil, err
	}
	if err := d.tell(ctx, func(r *Report) { r.Message = "planning" }); err != nil {
		return nil, err
	}
	return workspace.Plan(ctx, terraform.PlanOptions{Destroy: d.order.Operation == Destroy})
}

// left tells whether a lock was left behind by an earlier deployer of this stack. The platform has taken those in its own
// backend away, and PostgreSQL does so when a connection ends: what it tells of a lock's owner is not the owner.
func (d *deployment) left(lock *terraform.LockError) bool {
	if d.order.Backend == nil || d.order.Backend.Type == terraform.BackendPostgres {
		return false
	}
	host := lock.Who[strings.LastIndex(lock.Who, "@")+1:]
	return slices.Contains(d.order.Earlier, host)
}

// unlock takes such a lock away, if the turn is still this one's.
func (d *deployment) unlock(ctx context.Context, workspace *terraform.Workspace, lock *terraform.LockError) error {
	if err := d.tell(ctx, func(r *Report) { r.Message = "taking the lock away that an earlier deployer has left" }); err != nil {
		return err
	}
	d.Log.InfoContext(ctx, "lock taken away from a deployer that is no more", "stack", d.Stack, "lock", lock.ID, "who", lock.Who, "since", lock.Created)
	return workspace.ForceUnlock(ctx, lock.ID)
}

// preview tells what a plan would do, and whether it would be done.
func (d *deployment) preview(plan *terraform.Plan, policy terraform.Policy, refused error) {
	d.current.Preview = &Preview{Changes: plan.Changes, Consent: policy.Lacking(plan)}
	if refused != nil {
		d.current.Preview.Refused = refused.Error()
	}
}

// clean removes what is secret. A state that could not be written stays, and the next one who works here writes it.
func (d *deployment) clean() {
	if d.workspace == nil {
		return
	}
	_ = os.Remove(filepath.Join(d.Work, d.Stack+".ca.crt")) // it may not be there
	if err := d.workspace.Close(); err != nil {
		d.Log.Warn("workspace is kept", "stack", d.Stack, "error", err)
	}
}

// open prepares the stack's workspace.
func (d *deployment) open() (*terraform.Workspace, error) {
	built, err := release.OpenCloud(d.Release)
	if err != nil {
		return nil, err
	}
	tofu, err := built.Tofu()
	if err != nil {
		return nil, err
	}
	lockPath, err := built.Lock(d.cloud.Provider)
	if err != nil {
		return nil, err
	}
	lock, err := os.ReadFile(lockPath)
	if err != nil {
		return nil, err
	}
	files, err := configuration.Files(d.order.Cloud, d.order.InfraVersion, d.order.Kind)
	if err != nil {
		return nil, err
	}
	driver, err := terraform.New(terraform.Config{Binary: tofu, Mirror: built.Mirror(), Root: d.Work, Log: d.Log})
	if err != nil {
		return nil, err
	}
	if err := d.trust(d.order.Environment); err != nil {
		return nil, err
	}
	d.goDirect(d.order.Environment)
	return driver.Open(terraform.Stack{
		Name: d.Stack, Configuration: terraform.Configuration{Files: files, Lock: lock}, Variables: d.order.Variables,
		Backend: d.backend(), Environment: d.order.Environment,
	})
}

// backend is where the state is.
func (d *deployment) backend() terraform.Backend {
	if d.order.Backend != nil {
		return *d.order.Backend
	}
	backend := terraform.HTTPBackend(d.Server+PathStates+"/"+d.Stack, state.TokenUser, d.Token)
	backend.Environment["TF_HTTP_CLIENT_CA_CERTIFICATE_PEM"] = string(d.CA)
	return backend
}

// trust lets the engine trust further authorities. Those of the system it finds in their folder all the same.
func (d *deployment) trust(environment map[string]string) error {
	certificates, found := environment[cloudapi.EnvironmentCA]
	if !found {
		return nil
	}
	delete(environment, cloudapi.EnvironmentCA)
	file := filepath.Join(d.Work, d.Stack+".ca.crt")
	environment["SSL_CERT_FILE"] = file
	if err := os.MkdirAll(d.Work, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, []byte(certificates), 0o600)
}

// goDirect keeps the way to the platform from leading through a proxy that is for the way to the cloud.
func (d *deployment) goDirect(environment map[string]string) {
	platform, err := url.Parse(d.Server)
	if err != nil || environment["HTTPS_PROXY"]+environment["https_proxy"] == "" {
		return
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		environment[name] = strings.TrimPrefix(environment[name]+","+platform.Hostname(), ",")
	}
}

// adopt takes what an earlier attempt has left behind into the stack.
func (d *deployment) adopt(ctx context.Context, workspace *terraform.Workspace) error {
	if !d.order.Adopt || d.cloud.Finder == nil || d.order.Operation == Plan { // which changes nothing, the state neither
		return nil
	}
	if err := d.tell(ctx, func(r *Report) { r.Message = "looking for what an earlier attempt left behind" }); err != nil {
		return err
	}
	finder, err := d.cloud.Finder(d.order)
	if err != nil {
		return err
	}
	adopted, err := workspace.Adopt(ctx, finder)
	if err != nil {
		return err
	}
	d.Log.InfoContext(ctx, "adopted", "stack", d.Stack, "resources", adopted)
	return nil
}

// apply applies the plan, and reads what came of it.
func (d *deployment) apply(ctx context.Context, workspace *terraform.Workspace, plan *terraform.Plan) error {
	err := workspace.Apply(ctx, plan, func(event terraform.Event) {
		// Also one who is asked to end tells what it still waits for.
		if err := d.progress(context.WithoutCancel(ctx), event.String()); err != nil {
			d.Log.WarnContext(ctx, "progress not reported", "stack", d.Stack, "error", err)
		}
	})
	if err != nil || d.order.Operation == Destroy {
		return err
	}
	outputs := map[string]json.RawMessage{}
	if err := workspace.Output(ctx, &outputs); err != nil {
		return err
	}
	d.current.Outputs = outputs
	return nil
}

// progress reports what happens, at most once in a while. It never holds up what happens.
func (d *deployment) progress(ctx context.Context, message string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.reported) < reportInterval {
		return nil
	}
	d.reported, d.current.Message = time.Now(), message
	return d.Platform.Progress(ctx, d.current)
}

// tell reports a change that has to be known before it goes on: whoever was replaced is told so.
func (d *deployment) tell(ctx context.Context, change func(*Report)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.current)
	d.reported = time.Now()
	return d.Platform.Report(ctx, d.current)
}
