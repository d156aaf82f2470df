package machines

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/balancer"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

var _ provisioner.Auditor = (*Provisioner)(nil)

// The checks of this type, besides those that hosts have.
const (
	checkMachines      = "machines"
	checkHosts         = "hosts"
	checkEtcd          = "etcd"
	checkCertificates  = "certificates"
	checkConfiguration = "configuration"
)

// atOnce is how many machines of a cluster are asked at once.
const atOnce = 8

// Audit implements provisioner.Auditor: which machines of the control plane are lost, and how those are that are there.
// Workers whose nodes are ready are asked only in thorough audits; the same holds for what is on the management cluster.
func (p *Provisioner) Audit(ctx context.Context, c *v1alpha1.Cluster, thorough bool) ([]v1alpha1.Finding, error) {
	b, err := p.begin(&task.Scope{Task: &v1alpha1.Task{}, Object: c, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	machines, err := b.machines(ctx)
	if err != nil {
		return nil, err
	}
	members, err := b.members(ctx)
	if err != nil {
		return nil, err
	}
	findings, silent, err := b.askHosts(ctx, machines, members, thorough)
	if err != nil {
		return nil, err
	}
	findings = append(findings, b.lostMembers(machines, members, silent)...)
	if thorough {
		drift, err := b.drift(ctx)
		if err != nil {
			return nil, err
		}
		findings = append(findings, drift...)
	}
	return findings, nil
}

// askHosts asks machines how they are. Silent are the members of the control plane that do not answer, and whose node is
// not ready either.
func (b *build) askHosts(ctx context.Context, machines []v1alpha1.Machine, members []balancer.Server, thorough bool) (findings []v1alpha1.Finding, silent []string, err error) {
	distribution, err := b.distribution()
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var work sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i := range machines {
		m := &machines[i]
		member := m.Spec.Role == v1alpha1.MachineControlPlane && isMember(members, m.Name)
		ails := m.Spec.Role == v1alpha1.MachineWorker && m.Status.NodeName != "" && (thorough || !ready(m))
		if m.DeletionTimestamp != nil || m.Status.Address == "" || lost(m) || !member && !ails {
			continue
		}
		free <- struct{}{}
		work.Go(func() {
			defer func() { <-free }()
			found, failure := b.ask(ctx, distribution, m)
			mu.Lock()
			defer mu.Unlock()
			findings = append(findings, found...)
			if failure == nil {
				return
			}
			if member && !ready(m) {
				silent = append(silent, m.Name)
			} else if ready(m) {
				findings = append(findings, v1alpha1.Finding{
					Check: checkHosts, Subject: m.Name, Message: fmt.Sprintf("machine %s cannot be asked how it is: %v", m.Name, failure),
					Remedy: fmt.Sprintf("see whether it answers, with `cloud k8s ssh %s %s`", b.Cluster.Name, m.Name),
				})
			}
		})
	}
	work.Wait()
	slices.Sort(silent)
	return distinct(findings), silent, ctx.Err()
}

// distinct are the findings without those that others made too: every member of a datastore tells of the others.
func distinct(findings []v1alpha1.Finding) []v1alpha1.Finding {
	var all []v1alpha1.Finding
	for _, finding := range findings {
		if !slices.ContainsFunc(all, func(f v1alpha1.Finding) bool {
			return f.Check == finding.Check && f.Subject == finding.Subject && f.Repairable == finding.Repairable
		}) {
			all = append(all, finding)
		}
	}
	return all
}

// ask asks one machine.
func (b *build) ask(ctx context.Context, distribution hostsetup.Distribution, m *v1alpha1.Machine) ([]v1alpha1.Finding, error) {
	host, err := b.host(ctx, m)
	if err != nil {
		return nil, err
	}
	found, err := b.health(ctx, distribution, host, hostsetup.Role(m.Spec.Role))
	if err != nil {
		return nil, err
	}
	var findings []v1alpha1.Finding
	for _, each := range found {
		subject := m.Name
		switch {
		case each.Check == checkEtcd && each.Subject != "":
			subject = each.Subject // a member, which may be another machine
		case each.Subject != "" && each.Subject != m.Name:
			subject += "/" + each.Subject
		}
		findings = append(findings, v1alpha1.Finding{
			Check: each.Check, Subject: subject, Message: each.Message, Remedy: each.Remedy, Repairable: each.Repairable,
		})
	}
	return findings, nil
}

// lostMembers tells of machines of the control plane that are gone, or do not answer, and whether what is left can go on
// without them.
func (b *build) lostMembers(machines []v1alpha1.Machine, members []balancer.Server, silent []string) []v1alpha1.Finding {
	var findings []v1alpha1.Finding
	for _, member := range members {
		m, err := named(machines, member.Name)
		switch {
		case err != nil:
			findings = append(findings, v1alpha1.Finding{Check: checkMachines, Subject: member.Name, Message: "machine " + member.Name + " of the control plane is gone"})
		case lost(m):
			findings = append(findings, v1alpha1.Finding{Check: checkMachines, Subject: m.Name, Message: "machine " + m.Name + " of the control plane is lost: " + message(m)})
		case slices.Contains(silent, m.Name):
			findings = append(findings, v1alpha1.Finding{
				Check: checkHosts, Subject: m.Name, Message: "machine " + m.Name + " of the control plane does not answer, and its node is not ready",
				Remedy: "start it again",
			})
		}
	}
	left := len(members) - len(findings)
	for i := range findings {
		finding := &findings[i]
		switch {
		case left >= majority(len(members)):
			finding.Repairable = true
		case left == 0:
			finding.Repairable = true
			finding.Risk = "no machine of the control plane is left, and what the cluster held is only on them: it would begin anew and empty"
			finding.Remedy = "bring a machine back, or restore a backup into a new cluster"
		default:
			finding.Repairable = true
			finding.Risk = fmt.Sprintf("only %d of %d members of etcd are left, fewer than the %d that have to agree: going on with what one of them has could lose what was written last",
				left, len(members), majority(len(members)))
			finding.Remedy = "bring one of them back, or restore a backup into a new cluster"
		}
	}
	if missing := int(b.Cluster.Spec.ControlPlane.Replicas) - len(members); missing > 0 && len(findings) == 0 {
		findings = append(findings, v1alpha1.Finding{
			Check: checkMachines, Message: fmt.Sprintf("the control plane has %d of %d machines", len(members), b.Cluster.Spec.ControlPlane.Replicas), Repairable: true,
		})
	}
	for i := range machines { // those that are no members say nothing else
		m := &machines[i]
		if m.Spec.Role == v1alpha1.MachineControlPlane && m.DeletionTimestamp == nil && isMember(members, m.Name) && !lost(m) &&
			!ready(m) && joined(m) && !slices.Contains(silent, m.Name) {
			findings = append(findings, v1alpha1.Finding{Check: "nodes", Subject: m.Name, Message: message(m), Repairable: true})
		}
	}
	return findings
}

func joined(m *v1alpha1.Machine) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, "Joined")
}

// drift tells what somebody has removed or edited on the management cluster, and whether the platform's access is due.
func (b *build) drift(ctx context.Context) ([]v1alpha1.Finding, error) {
	kubeconfigs, err := b.Secret(ctx, base.KubeconfigSecret)
	if err != nil {
		return nil, err
	}
	var findings []v1alpha1.Finding
	if len(kubeconfigs.Data) > 0 && b.due(kubeconfigs.Data) {
		findings = append(findings, v1alpha1.Finding{Check: checkCertificates, Message: "the administrators' certificates are due for renewal", Repairable: true})
	}
	edited := func(what string) {
		findings = append(findings, v1alpha1.Finding{Check: checkConfiguration, Message: what, Repairable: true})
	}
	for _, name := range []string{base.KubeconfigSecret, bootstrap.JoinSecretName} {
		secret, err := b.Secret(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(secret.Data) == 0 {
			edited("secret " + name + " is missing")
		}
	}
	for _, look := range []func(ctx context.Context) (string, error){b.driftOfEndpoint, b.driftOfPolicies} {
		what, err := look(ctx)
		if apierrors.IsNotFound(err) {
			what, err = strings.TrimSpace(err.Error()), nil
		}
		if err != nil {
			return nil, err
		}
		if what != "" {
			edited(what)
		}
	}
	return findings, nil
}

// driftOfEndpoint looks at the Service and at the balancer behind it.
func (b *build) driftOfEndpoint(ctx context.Context) (string, error) {
	site, err := b.Site(ctx)
	if err != nil {
		return "", err
	}
	if what, err := b.DriftOfService(ctx, site, exposure()); what != "" || err != nil {
		return what, err
	}
	e, err := b.Endpoint(ctx)
	if err != nil {
		return "", err
	}
	return b.DriftOfDeployment(ctx, b.describeBalancer(e))
}

func (b *build) driftOfPolicies(ctx context.Context) (string, error) {
	site, err := b.Site(ctx)
	if err != nil {
		return "", err
	}
	e, err := b.Endpoint(ctx)
	if err != nil {
		return "", err
	}
	hosts, err := b.inventory(ctx)
	if err != nil {
		return "", err
	}
	return b.DriftOfPolicies(ctx, append(b.policies(site, hosts), b.MachinePolicy(site, e, b.fromPlatform())))
}
