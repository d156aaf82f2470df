// Package pods runs deployers as pods of the management cluster, one at a time for each stack, and keeps the record of what
// they were asked to do and what they report: a Secret for each stack, in the platform's namespace. A pod that is lost is
// replaced, and its successor told to look for what was left behind; the lock that it held is taken away first, which is
// safe because a state is written only by who holds its lock. The operations of some accounts are done by deployers that
// run elsewhere: those get no pod, but wait until one comes for them, and are its own for as long as it shows signs of life.
package pods

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"plasmacloud.io/plasmacloud/internal/deployer"
)

// Config is what deployers need.
type Config struct {
	API kubernetes.Interface
	// Namespace that they run in: the platform's own.
	Namespace string
	// Image of the daemon, and when it is pulled.
	Image      string
	PullPolicy corev1.PullPolicy
	// ReleaseClaim is the volume claim of the release.
	ReleaseClaim string
	// Service is the one that deployers reach the platform by, and CA who has signed its certificate.
	Service string
	CA      func() ([]byte, error)
	// Token is a stack's, for so long.
	Token func(stack string, lifetime time.Duration) string
	// Unlock takes the lock of a stack's state away from a deployer that is no more.
	Unlock func(ctx context.Context, stack string) error
	// Environment is an account's credentials, as of now, and what else deployers for its cloud need.
	Environment func(ctx context.Context, cloud string, account deployer.Account) (map[string]string, error)
	// Now is the clock; the system's where it is nil.
	Now func() time.Time
	Log *slog.Logger
}

// Deployments are the deployers of all stacks.
type Deployments struct {
	Config
	since time.Time // when remote deployers could be heard from
}

var _ deployer.Records = (*Deployments)(nil)

// New returns the deployments.
func New(config Config) *Deployments {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Deployments{Config: config, since: config.Now()}
}

// tokenLifetime is for how long an attempt can go on: a state that cannot be written at the end of an apply is lost.
const tokenLifetime = 24 * time.Hour

const (
	// LabelStack is on everything that belongs to a stack's deployments.
	LabelStack = "plasmacloud.io/deployment"
	// annotationStack has the stack's name, which is longer than a label.
	annotationStack = "plasmacloud.io/stack"
	keyRecord       = "record"
	secretType      = "plasmacloud.io/deployment"
)

// record is what is known of a stack's latest operation.
type record struct {
	Request deployer.Request `json:"request"`
	Attempt int              `json:"attempt"`
	// Adopt: something may have been left behind.
	Adopt  bool            `json:"adopt,omitempty"`
	Report deployer.Report `json:"report"`
	// Host of this attempt, and Earlier those of the ones before it, since one has succeeded.
	Host    string   `json:"host,omitempty"`
	Earlier []string `json:"earlier,omitempty"`
	// Applied is the last request that was made to change something, where the latest one only looks.
	Applied *deployer.Request `json:"applied,omitempty"`
	// Offered says that remote deployers may come for it, and Lease who has.
	Offered bool   `json:"offered,omitempty"`
	Lease   *lease `json:"lease,omitempty"`
	// Cancelled says that who has it is to come to an end.
	Cancelled bool `json:"cancelled,omitempty"`

	secret *corev1.Secret // as it was read
}

func (r *record) turn() deployer.Turn { return deployer.Turn{ID: r.Request.ID, Attempt: r.Attempt} }

// looks tells whether the latest operation changes nothing.
func (r *record) looks() bool { return r.Request.Operation == deployer.Plan }

// leaves tells whether the latest operation, which has ended, may have left something behind. One that only looks leaves what
// was there.
func (r *record) leaves() bool {
	if r.looks() {
		return r.Adopt
	}
	return r.Report.Phase != deployer.Succeeded
}

// maxEarlier is how many hosts are remembered: who comes next takes the lock away that one has left.
const maxEarlier = 20

// hosts are those that may have left a lock behind.
func (r *record) hosts() []string {
	if r.Report.Phase == deployer.Succeeded {
		return nil
	}
	hosts := r.Earlier
	if r.Host != "" && !slices.Contains(hosts, r.Host) {
		hosts = append(slices.Clone(hosts), r.Host)
	}
	return hosts[max(0, len(hosts)-maxEarlier):]
}

// applied is the last request that was made to change something.
func (r *record) applied() *deployer.Request {
	if r.looks() {
		return r.Applied
	}
	return &r.Request
}

// id is a piece of the stack's name that fits into names and labels.
func id(stack string) string {
	sum := sha256.Sum256([]byte(stack))
	return hex.EncodeToString(sum[:10])
}

func recordName(stack string) string { return "deployment-" + id(stack) }

// load returns the record of a stack, or nil where there is none.
func (d *Deployments) load(ctx context.Context, stack string) (*record, error) {
	secret, err := d.API.CoreV1().Secrets(d.Namespace).Get(ctx, recordName(stack), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read deployment of stack %s: %w", stack, err)
	}
	r := &record{secret: secret}
	if err := json.Unmarshal(secret.Data[keyRecord], r); err != nil {
		return nil, fmt.Errorf("read deployment of stack %s: %w", stack, err)
	}
	return r, nil
}

// save writes a record, unless somebody else has written it since.
func (d *Deployments) save(ctx context.Context, r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	stack := r.Request.Stack
	secrets := d.API.CoreV1().Secrets(d.Namespace)
	if r.secret == nil {
		r.secret, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: recordName(stack), Labels: r.labels(), Annotations: map[string]string{annotationStack: stack},
			},
			Type: secretType, Data: map[string][]byte{keyRecord: data},
		}, metav1.CreateOptions{})
	} else {
		r.secret = r.secret.DeepCopy()
		r.secret.Labels = r.labels()
		r.secret.Data = map[string][]byte{keyRecord: data}
		r.secret, err = secrets.Update(ctx, r.secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write deployment of stack %s: %w", stack, err)
	}
	return nil
}

// Ensure begins an operation, unless it has begun, and tells how far it is. One that waits for another operation on the
// same stack is Pending. To remove a stack, the variables that it has had will do where none are given. The failure of an
// attempt is told once: asked again, another attempt begins.
func (d *Deployments) Ensure(ctx context.Context, request deployer.Request) (deployer.Report, error) {
	r, err := d.load(ctx, request.Stack)
	if err != nil {
		return deployer.Report{}, err
	}
	if r == nil {
		return d.begin(ctx, &record{Request: request, Attempt: 1})
	}
	worker, err := d.worker(ctx, r)
	if err != nil {
		return deployer.Report{}, err
	}
	other := r.Request.ID != request.ID
	switch {
	case other && worker.begun && worker.alive && !r.Report.Finished():
		return deployer.Report{Phase: deployer.Pending, Message: "waits for an operation that was begun earlier: " + r.Report.Message}, nil
	case other: // what it came to is in the state
		next := &record{Request: request, Attempt: 1, Adopt: r.leaves(), Earlier: r.hosts(), secret: r.secret}
		before := r.applied()
		if request.Operation == deployer.Destroy && request.Variables == nil && before != nil {
			next.Request.Variables, next.Request.InfraVersion = before.Variables, before.InfraVersion
		}
		if next.looks() {
			next.Applied = before
		}
		return d.begin(ctx, next)
	case r.Report.Phase == deployer.Succeeded:
		return r.Report, d.removePods(ctx, request.Stack)
	case r.Report.Phase == deployer.Failed:
		return d.told(ctx, r, r.Report)
	case r.Report.Attempt != r.Attempt: // an earlier one failed, and that was told
		again := &record{Request: r.Request, Attempt: r.Attempt + 1, Adopt: r.Adopt, Earlier: r.hosts(), Applied: r.Applied, secret: r.secret}
		d.Log.InfoContext(ctx, "deployment begins anew", "stack", request.Stack, "operation", request.ID, "attempt", again.Attempt)
		return d.begin(ctx, again)
	case !worker.alive:
		return d.told(ctx, r, deployer.Report{Turn: r.turn(), Phase: deployer.Failed, Error: "the deployer was lost before it had finished: " + r.Report.Message})
	case r.Request.Remote && !r.Offered: // which was interrupted
		return r.Report, d.offer(ctx, r)
	default:
		if r.Report.Phase == deployer.Pending && worker.waits != "" {
			r.Report.Message = worker.waits
		}
		return r.Report, nil
	}
}

// worker is who does an operation.
type worker struct {
	begun, alive bool
	waits        string // why it has not begun, where that is worth telling
}

// worker looks for the one of a record's attempt.
func (d *Deployments) worker(ctx context.Context, r *record) (worker, error) {
	if r.Request.Remote {
		return d.remote(r), nil
	}
	pod, err := d.pod(ctx, r)
	if err != nil || pod == nil {
		return worker{}, err
	}
	alive := pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	return worker{begun: true, alive: alive, waits: waiting(pod)}, nil
}

// told returns a failure, and has another attempt begin when the operation is asked for again, if that may help.
func (d *Deployments) told(ctx context.Context, r *record, failure deployer.Report) (deployer.Report, error) {
	if failure.Permanent {
		return failure, nil
	}
	r.Report, r.Adopt = deployer.Report{Phase: deployer.Pending, Message: "is tried again"}, r.Adopt || !r.looks()
	return failure, d.save(ctx, r)
}

// Cancel asks the deployer of an operation to come to its end, and tells whether it has: it waits for what the cloud is just
// making, writes the state and gives its lock back. An operation that is not the stack's latest has ended.
func (d *Deployments) Cancel(ctx context.Context, stack, id string) (ended bool, err error) {
	r, err := d.load(ctx, stack)
	if err != nil || r == nil || r.Request.ID != id || r.Report.Finished() {
		return err == nil, err
	}
	worker, err := d.worker(ctx, r)
	switch {
	case err != nil:
		return false, err
	case worker.alive && worker.begun && r.Request.Remote: // it gets to know with its next sign of life
		r.Cancelled = true
		return false, d.save(ctx, r)
	case worker.alive && worker.begun:
		return false, d.removePods(ctx, stack)
	}
	// Nobody works on it, and nobody is to begin.
	r.Report, r.Offered = deployer.Report{Turn: r.turn(), Phase: deployer.Failed, Error: "it was cancelled"}, false
	return true, d.save(ctx, r)
}

// Known tells whether there was ever an operation on a stack.
func (d *Deployments) Known(ctx context.Context, stack string) (bool, error) {
	r, err := d.load(ctx, stack)
	return r != nil, err
}

// begin writes down what is to be done and starts the deployer.
func (d *Deployments) begin(ctx context.Context, r *record) (deployer.Report, error) {
	if err := d.removePods(ctx, r.Request.Stack); err != nil {
		return deployer.Report{}, err
	}
	r.Report = deployer.Report{Turn: r.turn(), Phase: deployer.Pending, Message: "starting"}
	if err := d.save(ctx, r); err != nil {
		return deployer.Report{}, err
	}
	if r.Request.Remote {
		return r.Report, d.offer(ctx, r)
	}
	if err := d.Unlock(ctx, r.Request.Stack); err != nil {
		return deployer.Report{}, err
	}
	return r.Report, d.start(ctx, r)
}

// Order implements deployer.Records.
func (d *Deployments) Order(ctx context.Context, stack string, turn deployer.Turn) (*deployer.Order, error) {
	r, err := d.load(ctx, stack)
	if err != nil {
		return nil, err
	}
	if r == nil || r.turn() != turn || r.Report.Finished() {
		return nil, deployer.ErrReplaced
	}
	return d.order(ctx, r)
}

// order is what the record's deployer is to do, with credentials as of now.
func (d *Deployments) order(ctx context.Context, r *record) (*deployer.Order, error) {
	environment, err := d.Environment(ctx, r.Request.Cloud, r.Request.Account)
	if err != nil && r.Report.Message == err.Error() {
		return nil, err
	}
	if err != nil { // which people have to know, as the deployer asks until there are some
		r.Report.Message = err.Error()
		return nil, errors.Join(err, d.save(ctx, r))
	}
	return &deployer.Order{Request: r.Request, Adopt: r.Adopt, Earlier: r.Earlier, Environment: environment}, nil
}

// Report implements deployer.Records.
func (d *Deployments) Report(ctx context.Context, stack string, report deployer.Report) error {
	return d.change(ctx, stack, report.Turn, func(r *record) { r.Report, r.Host = report, report.Host })
}

// change writes something into the record of an attempt that goes on.
func (d *Deployments) change(ctx context.Context, stack string, turn deployer.Turn, change func(r *record)) error {
	return retry.OnError(retry.DefaultRetry, apierrors.IsConflict, func() error {
		r, err := d.load(ctx, stack)
		if err != nil {
			return err
		}
		if r == nil || r.turn() != turn || r.Report.Finished() {
			return deployer.ErrReplaced
		}
		change(r)
		if r.Lease != nil { // who talks is alive
			r.Lease.Until = d.Now().Add(LeaseDuration)
		}
		return d.save(ctx, r)
	})
}

// Forget removes everything about a stack that is gone.
func (d *Deployments) Forget(ctx context.Context, stack string) error {
	err := d.API.CoreV1().Secrets(d.Namespace).Delete(ctx, recordName(stack), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(err, d.removePods(ctx, stack))
}
