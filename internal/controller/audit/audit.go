// Package audit looks after clusters that nothing is asked of: at an interval, and as soon as something happens that it
// can watch, it looks whether a cluster still is what it was brought to. What is wrong it tells in the cluster's status,
// and asks for a repair, which is a task like any other. It mends nothing itself.
//
// What every type of cluster has in common is looked at here: the API, the components behind it, and the nodes. What only
// a type knows, such as its hosts, its etcd and its configuration, is told by the type's Auditor. What to do about it all
// is decided in one place, by what was found and what was tried before (judge.go).
package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/cluster"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/tenant"
)

// Tenants are the connections to clusters.
type Tenants interface {
	Get(cluster *v1alpha1.Cluster) (*tenant.Connection, error)
	Subscribe(notify func(tenant.Change))
}

// Reconciler audits clusters.
type Reconciler struct {
	client.Client
	Tenants Tenants
	// Auditors of the types; clusters of others are not audited.
	Auditors map[v1alpha1.ClusterType]provisioner.Auditor
	// Follow, where it is given, tells of clusters of which somebody changed a part, until ctx ends.
	Follow   func(ctx context.Context, changed func(cluster types.NamespacedName)) error
	Limits   Limits
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	Metrics  *Metrics
	// Concurrency is how many clusters are looked at at once.
	Concurrency int

	mu   sync.Mutex
	seen map[types.NamespacedName]*memory
	// lost are workers that were lost since the last audit. Their node group may have replaced them before there is one, and
	// that they were has to be told all the same.
	lost map[types.NamespacedName][]v1alpha1.Finding
}

// memory is what is known of a cluster from one audit to the next. It may be lost at any time.
type memory struct {
	uid types.UID
	// thorough is when the next thorough audit is due.
	thorough time.Time
	// since is when each finding was first made.
	since map[string]time.Time
}

// patience is how long an audit may take.
const patience = time.Minute

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	c := &v1alpha1.Cluster{}
	if err := r.Get(ctx, request.NamespacedName, c); err != nil {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	auditor := r.Auditors[c.Spec.Type]
	if auditor == nil || !c.DeletionTimestamp.IsZero() || c.Status.ObservedGeneration == 0 {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil // it is being made or removed; its change of phase tells when that is over
	}
	tasks, err := r.tasks(ctx, c)
	if err != nil {
		return ctrl.Result{}, err
	}
	if busy(c, tasks) {
		r.calm(request.NamespacedName)
		return ctrl.Result{RequeueAfter: r.interval()}, nil // whatever is wrong may be what the task is about
	}
	if r.connecting(c) {
		return ctrl.Result{RequeueAfter: calmDown}, nil
	}
	m := r.recall(c)
	findings, err := r.look(ctx, c, auditor, m)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("audit cluster %s: %w", request.NamespacedName, err)
	}
	findings = r.withLost(request.NamespacedName, findings)
	found, ripens := m.ripe(findings, r.Limits, r.Clock.Now())
	verdict := judge(found, historyOf(c, tasks), r.Limits, r.Clock.Now())
	if verdict.repair {
		if err := r.request(ctx, c, found); apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: calmDown}, nil // somebody was faster, and may have mended it
		} else if err != nil {
			return ctrl.Result{}, err
		}
	}
	r.forgetLost(request.NamespacedName)
	if err := r.tell(ctx, c, verdict.health, len(findings) > len(found)); err != nil {
		return ctrl.Result{}, err
	}
	again := r.interval()
	for _, earlier := range []time.Time{ripens, verdict.again} {
		if left := earlier.Sub(r.Clock.Now()); !earlier.IsZero() && left < again {
			again = max(left, time.Second)
		}
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// connecting tells whether the daemon has only begun to connect to a cluster, as it does after its start: an API that nobody
// has asked yet is not one that does not answer.
func (r *Reconciler) connecting(c *v1alpha1.Cluster) bool {
	if !machine.Backs(c.Spec.Type) {
		return false
	}
	_, err := r.Tenants.Get(c)
	return errors.Is(err, tenant.ErrNotTried)
}

// interval is how soon a cluster is looked at again when nothing happens, so that clusters spread over the time.
func (r *Reconciler) interval() time.Duration { return wait.Jitter(r.Limits.Interval, spread) }

// spread is the part of an interval that is added to it at random.
const spread = 0.25

// look makes one audit.
func (r *Reconciler) look(ctx context.Context, c *v1alpha1.Cluster, auditor provisioner.Auditor, m *memory) ([]v1alpha1.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := r.Clock.Now()
	r.mu.Lock()
	thorough := !now.Before(m.thorough)
	if thorough { // what is changed from now on is looked at by the next one
		m.thorough = now.Add(wait.Jitter(r.Limits.Thorough, spread))
	}
	r.mu.Unlock()
	findings, err := auditor.Audit(ctx, c, thorough)
	if err == nil {
		var common []v1alpha1.Finding
		common, err = r.common(ctx, c)
		findings = append(findings, common...)
	}
	r.Metrics.audited(c, findings, err, r.Clock.Since(now))
	if thorough && (err != nil || len(findings) > 0) { // what was found is looked at again as thoroughly
		r.doubt(client.ObjectKeyFromObject(c))
	}
	return findings, err
}

// tell writes what was found into the status. What has not lasted yet does not make a cluster unhealthy, nor healthy. Of
// one that nothing was ever found of nothing is written.
func (r *Reconciler) tell(ctx context.Context, c *v1alpha1.Cluster, health v1alpha1.Health, uncertain bool) error {
	if was := c.Status.Health; was != nil {
		health.HealthyAt = was.HealthyAt
		if health.Reason == v1alpha1.ReasonHealthy && was.Reason != v1alpha1.ReasonHealthy {
			now := metav1.NewTime(r.Clock.Now().Truncate(time.Second))
			health.HealthyAt = &now
		}
	}
	if health.Reason == v1alpha1.ReasonHealthy && (uncertain || c.Status.Health == nil) || equality.Semantic.DeepEqual(c.Status.Health, &health) {
		return nil
	}
	before := c.DeepCopy()
	c.Status.Health = &health
	if err := r.Status().Patch(ctx, c, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write health: %w", err))
	}
	if before.Status.Health != nil && before.Status.Health.Reason == health.Reason {
		return nil
	}
	switch {
	case health.Reason != v1alpha1.ReasonHealthy:
		r.Recorder.Eventf(c, nil, "Warning", health.Reason, "Audit", "%s", shortened(health.Message, maxNote))
	case before.Status.Health != nil:
		r.Recorder.Eventf(c, nil, "Normal", health.Reason, "Audit", "all is well again")
	}
	return nil
}

const (
	maxNote   = 1000 // characters of an event
	maxReason = 900  // of a task's reason
)

func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most-3] + "..."
}

// request asks for a repair, unless somebody has changed the cluster meanwhile: then it is looked at anew.
func (r *Reconciler) request(ctx context.Context, c *v1alpha1.Cluster, findings []v1alpha1.Finding) error {
	before := c.DeepCopy()
	request := v1alpha1.RepairRequest{At: r.Clock.Now(), Automatic: true, Reason: reasonOf(findings)}
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationRepair, request.String())
	err := r.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("ask for a repair: %w", err)
	}
	r.Metrics.requested(c, findings)
	ctrl.LoggerFrom(ctx).Info("asked for a repair", "cluster", client.ObjectKeyFromObject(c), "reason", request.Reason)
	return nil
}

func (r *Reconciler) tasks(ctx context.Context, c *v1alpha1.Cluster) ([]v1alpha1.Task, error) {
	var tasks v1alpha1.TaskList
	err := r.List(ctx, &tasks, client.InNamespace(c.Namespace), client.MatchingFields{status.TasksByResource: string(c.UID)})
	return status.Changing(tasks.Items), err
}

// busy tells whether something is being done to the cluster, or is asked for.
func busy(c *v1alpha1.Cluster, tasks []v1alpha1.Task) bool {
	asked, answer := c.Annotations[v1alpha1.AnnotationRepair] != c.Status.Repaired, cluster.RepairTask(c)
	for i := range tasks {
		if !tasks[i].Status.Phase.Finished() {
			return true
		}
		asked = asked && tasks[i].Name != answer
	}
	switch c.Status.Phase {
	case v1alpha1.PhaseRunning:
		return c.Status.ObservedGeneration != c.Generation || c.Annotations[v1alpha1.AnnotationRepair] != c.Status.Repaired
	case v1alpha1.PhaseFailed:
		return asked // whose task is not made, or not seen, yet
	default:
		return true
	}
}

func (r *Reconciler) recall(c *v1alpha1.Cluster) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(c)
	m := r.seen[key]
	if m == nil || m.uid != c.UID {
		m = &memory{uid: c.UID, since: map[string]time.Time{}}
		if r.seen == nil {
			r.seen = map[types.NamespacedName]*memory{}
		}
		r.seen[key] = m
	}
	return m
}

// noteLost remembers a worker that is lost for good, until that has been acted on.
func (r *Reconciler) noteLost(m *v1alpha1.Machine) {
	finding, found := worker(m)
	if !found || finding.Check != CheckMachines {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.lost = map[types.NamespacedName][]v1alpha1.Finding{}
	}
	key := types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.Cluster}
	if !slices.Contains(r.lost[key], finding) {
		r.lost[key] = append(r.lost[key], finding)
	}
}

// withLost adds the workers that were lost to what was found.
func (r *Reconciler) withLost(key types.NamespacedName, findings []v1alpha1.Finding) []v1alpha1.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, lost := range r.lost[key] {
		if !slices.ContainsFunc(findings, func(f v1alpha1.Finding) bool { return f.Check == lost.Check && f.Subject == lost.Subject }) {
			findings = append(findings, lost)
		}
	}
	return findings
}

// forgetLost is called when it has been acted on that workers were lost.
func (r *Reconciler) forgetLost(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lost, key)
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, key)
	delete(r.lost, key)
}

// calm forgets what was found: an operation changes everything.
func (r *Reconciler) calm(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.seen[key]; m != nil {
		clear(m.since)
		m.thorough = time.Time{}
	}
	delete(r.lost, key)
}

// doubt makes the next audit a thorough one.
func (r *Reconciler) doubt(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.seen[key]; m != nil {
		m.thorough = time.Time{}
	}
}

// ripe returns the findings that have lasted long enough to be believed, and when the next one will have.
func (m *memory) ripe(findings []v1alpha1.Finding, limits Limits, now time.Time) (ripe []v1alpha1.Finding, next time.Time) {
	since := map[string]time.Time{}
	for _, finding := range findings {
		key := finding.Check + "/" + finding.Subject
		first, known := m.since[key]
		if !known {
			first = now
		}
		since[key] = first
		believed := first.Add(limits.grace(finding))
		if !now.Before(believed) {
			ripe = append(ripe, finding)
		} else if next.IsZero() || believed.Before(next) {
			next = believed
		}
	}
	m.since = since
	return ripe, next
}
