package k3s

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

const (
	stepRemove = "remove member"

	// quorumCode is the exit code of `k8shost etcd-member remove` where it refuses for the sake of the quorum.
	quorumCode = 3

	// etcdRole is the label by which k3s knows the nodes that run etcd.
	etcdRole = "node-role.kubernetes.io/etcd"
)

// RemoveMember implements hostsetup.Distribution.
func (d *Distribution) RemoveMember(ctx context.Context, via hostsetup.Host, name string) error {
	if d.upstream() {
		return d.removeUpstream(ctx, via, name)
	}
	_, err := via.Client.RunIdempotent(ctx, remote.Command{
		Step: stepRemove, Args: []string{d.program(), "etcd-member", "remove", "--data-dir", dataDir, "--", name}, Timeout: time.Minute,
	})
	if code, ok := remote.ExitCode(err); ok && code == quorumCode {
		return fmt.Errorf("%w: %w", hostsetup.ErrQuorum, err)
	}
	return err
}

// removeUpstream deletes the node: k3s then removes its member from etcd by itself.
func (d *Distribution) removeUpstream(ctx context.Context, via hostsetup.Host, name string) error {
	run := func(args ...string) (remote.Result, error) {
		return via.Client.RunIdempotent(ctx, remote.Command{Step: stepRemove, Args: d.kubectl(args...), Timeout: 2 * time.Minute})
	}
	answer, err := run("get", "nodes", "--selector", etcdRole+"=true", "--output", "json")
	if err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := json.Unmarshal([]byte(answer.Stdout), &nodes); err != nil {
		return fmt.Errorf("host %s: %s: read the cluster's nodes: %w", via, stepRemove, err)
	}
	if !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == name }) {
		return nil
	}
	well := 0
	for i := range nodes.Items {
		if nodes.Items[i].Name != name && ready(&nodes.Items[i]) {
			well++
		}
	}
	if left := len(nodes.Items) - 1; well*2 <= left || left == 0 {
		return fmt.Errorf("host %s: %s: %w: of the %d servers left %d are well", via, stepRemove, hostsetup.ErrQuorum, left, well)
	}
	_, err = run("delete", "node", name, "--ignore-not-found", "--timeout=90s")
	return err
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// judgeMembers tells which etcd members are not well.
func judgeMembers(listed string) []hostsetup.Finding {
	if strings.TrimSpace(listed) == "" {
		return nil
	}
	var members []etcd.MemberStatus
	if err := json.Unmarshal([]byte(listed), &members); err != nil {
		return []hostsetup.Finding{{Check: CheckEtcd, Message: "it does not tell its members: " + strings.TrimSpace(listed)}}
	}
	var findings []hostsetup.Finding
	for _, member := range members {
		if !member.Healthy {
			findings = append(findings, hostsetup.Finding{
				Check: CheckEtcd, Subject: member.Name, Message: "etcd member is not well: " + member.Error,
				Remedy: "start its host; if that is lost, the cluster's repair replaces it",
			})
		}
	}
	return findings
}
