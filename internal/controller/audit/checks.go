package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/cluster"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/nodegroup"
	"plasmacloud.io/plasmacloud/internal/tenant"
)

const (
	// requestTimeout is how long a cluster's API may take to answer.
	requestTimeout = 10 * time.Second
	// stale is how old the sign of life of a component may be. It gives one every two seconds, on a busy machine later.
	stale = time.Minute
)

// common looks at what all types of clusters have whose nodes are machines of ours.
func (r *Reconciler) common(ctx context.Context, c *v1alpha1.Cluster) ([]v1alpha1.Finding, error) {
	if !machine.Backs(c.Spec.Type) {
		return nil, nil
	}
	findings, err := r.nodes(ctx, c)
	if err != nil {
		return nil, err
	}
	connection, err := r.Tenants.Get(c)
	if err != nil {
		return append(findings, v1alpha1.Finding{
			Check: CheckAPI, Message: "the cluster's API does not answer: " + err.Error(), Repairable: true,
			Remedy: "see what its control plane says, with `cloud k8s events`",
		}), nil
	}
	findings = append(findings, readiness(ctx, connection)...)
	return append(findings, r.components(ctx, connection)...), nil
}

// readiness asks the API server how it is. It names what of it is not ready, its etcd among others.
func readiness(ctx context.Context, connection *tenant.Connection) []v1alpha1.Finding {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := connection.Client().Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(ctx)
	if err == nil {
		return nil
	}
	var failed []string
	for line := range strings.Lines(string(answer)) {
		if name, isFailure := strings.CutPrefix(line, "[-]"); isFailure {
			name, _, _ = strings.Cut(name, " ")
			failed = append(failed, name)
		}
	}
	message := "the cluster's API is not ready: " + err.Error()
	if len(failed) > 0 {
		message = "the cluster's API is not ready: " + strings.Join(failed, ", ")
	}
	return []v1alpha1.Finding{{Check: CheckAPI, Message: message, Repairable: true}}
}

// components looks when those behind the API last gave a sign of life: they renew a lease for as long as they work.
func (r *Reconciler) components(ctx context.Context, connection *tenant.Connection) []v1alpha1.Finding {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var findings []v1alpha1.Finding
	leases := connection.Client().CoordinationV1().Leases(metav1.NamespaceSystem)
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		lease, err := leases.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && lease.Spec.RenewTime == nil:
			continue // it needs none, or has just begun
		case err != nil:
			return append(findings, v1alpha1.Finding{Check: CheckAPI, Message: fmt.Sprintf("the cluster's API does not tell of %s: %v", name, err), Repairable: true})
		}
		if age := r.Clock.Since(lease.Spec.RenewTime.Time); age > stale {
			findings = append(findings, v1alpha1.Finding{
				Check: CheckComponents, Subject: name, Repairable: true,
				Message: fmt.Sprintf("%s has given no sign of life since %s", name, lease.Spec.RenewTime.UTC().Format(time.RFC3339)),
			})
		}
	}
	return findings
}

// nodes compares the nodes that there should be with those that there are. Node groups replace what is broken; here it is
// noticed, so that it is told, and a repair watches over it.
func (r *Reconciler) nodes(ctx context.Context, c *v1alpha1.Cluster) ([]v1alpha1.Finding, error) {
	var machines v1alpha1.MachineList
	if err := r.List(ctx, &machines, client.InNamespace(c.Namespace), client.MatchingFields{machine.ByCluster: c.Name}); err != nil {
		return nil, err
	}
	var groups v1alpha1.NodeGroupList
	if err := r.List(ctx, &groups, client.InNamespace(c.Namespace), client.MatchingFields{cluster.NodeGroupsByCluster: c.Name}); err != nil {
		return nil, err
	}
	var findings []v1alpha1.Finding
	known := map[string]bool{} // groups that something is said of
	for i := range machines.Items {
		m := &machines.Items[i]
		if finding, found := worker(m); found {
			findings = append(findings, finding)
			known[m.Spec.NodeGroup] = true
		}
	}
	for i := range groups.Items {
		findings = append(findings, group(&groups.Items[i], known)...)
	}
	return findings, nil
}

// worker tells of a machine that has done its job and does not now. Those of control planes are their type's business.
func worker(m *v1alpha1.Machine) (v1alpha1.Finding, bool) {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if m.Spec.Role == v1alpha1.MachineControlPlane || !m.DeletionTimestamp.IsZero() || !machine.Joined(m) ||
		ready == nil || ready.Status != metav1.ConditionFalse {
		return v1alpha1.Finding{}, false
	}
	finding := v1alpha1.Finding{Check: CheckNodes, Subject: m.Name, Message: ready.Message, Repairable: true}
	switch ready.Reason {
	case machine.ReasonLost, machine.ReasonFailed, machine.ReasonNodeGone:
		finding.Check = CheckMachines // it does not come back by itself
	}
	return finding, true
}

// group tells of a node group that does not get to what it should be.
func group(g *v1alpha1.NodeGroup, known map[string]bool) []v1alpha1.Finding {
	finding := v1alpha1.Finding{Check: CheckNodes, Subject: "node group " + g.Spec.Group}
	ready := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
	stalled := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionStalled)
	switch {
	case !g.DeletionTimestamp.IsZero() || g.Status.ObservedGeneration != g.Generation:
		return nil // it is about to change
	case ready != nil && ready.Reason == nodegroup.ReasonHeldBack:
		finding.Message = ready.Message
		finding.Risk = "so many nodes at once are rarely broken one by one: what they have in common may be, and what is only on their disks would be lost"
		finding.Repairable = true
		finding.Remedy = "find out what they have in common"
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		finding.Message = stalled.Message
	case g.Status.ReadyReplicas < g.Spec.Replicas && !known[g.Spec.Group]:
		finding.Message, finding.Repairable = fmt.Sprintf("it has %d of %d nodes ready", g.Status.ReadyReplicas, g.Spec.Replicas), true
	case g.Status.Replicas > g.Spec.Replicas:
		finding.Message, finding.Repairable = fmt.Sprintf("it has %d machines instead of %d", g.Status.Replicas, g.Spec.Replicas), true
	default:
		return nil
	}
	return []v1alpha1.Finding{finding}
}
