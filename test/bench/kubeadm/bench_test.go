//go:build bench

package kubeadm

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"text/tabwriter"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
	"plasmacloud.io/plasmacloud/test/measure"
)

const (
	project = "default"
	rounds  = 2
)

// shape is how many machines a cluster has, and how long it took by which way.
type shape struct {
	controlPlanes, workers int
	ours, hand             []time.Duration
}

func (s *shape) String() string { return fmt.Sprintf("%d+%d", s.controlPlanes, s.workers) }

func TestKubeadm(t *testing.T) {
	l := lab.New(t)
	version, err := l.Release.Resolve("")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Node(t, "host")
	host.Cloud(t, "up", "--data-dir", host.Data.Path())
	byHand := hand{host: host, version: version}
	byHand.image, byHand.images = measure.BringMachine(t, l.Release, host, version)
	progress(t, "a first cluster, to have everything in memory")
	create(t, host, "warm-up", 1, 1)

	shapes := []*shape{{controlPlanes: 1, workers: 2}, {controlPlanes: 3, workers: 2}}
	for round := 1; round <= rounds; round++ {
		for _, s := range shapes {
			name := fmt.Sprintf("bench-%d-%d", s.controlPlanes, round)
			s.ours = append(s.ours, create(t, host, name, s.controlPlanes, s.workers))
			progress(t, "round %d, %s: ours %.1f s", round, s, s.ours[round-1].Seconds())
			s.hand = append(s.hand, byHand.create(t, name, s.controlPlanes, s.workers))
			progress(t, "round %d, %s: by hand %.1f s", round, s, s.hand[round-1].Seconds())
		}
	}
	report(version, shapes)
	host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes")
}

// create returns how long a cluster takes from the command to RUNNING, which is with all its nodes ready, and removes it.
func create(t *testing.T, host *lab.Node, name string, controlPlanes, workers int) time.Duration {
	t.Helper()
	began := time.Now()
	host.Cloud(t, "k8s", "create", "--name", name, "--type", "kubeadm", "--control-plane-instance-type", "u1.medium",
		"--control-plane-replicas", strconv.Itoa(controlPlanes), "--workers", strconv.Itoa(workers))
	err := measure.Poll(t.Context(), func() error {
		_, err := host.TryKubectl("wait", "clusters.plasmacloud.io/"+name, "-n", "project-"+project, "--for=jsonpath={.status.phase}=RUNNING", "--timeout=100s")
		if err != nil && time.Since(began) > 3*measure.Patience {
			t.Fatalf("wait for %s: %v\n%s", name, err, host.Kubectl(t, "get", "clusters,nodegroups,machines,tasks", "-n", "project-"+project))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	ready, err := host.Tenant(t, project, name).ReadyNodes()
	if err != nil || len(ready) != controlPlanes+workers {
		t.Fatalf("cluster %s is RUNNING, and ready are %v: %v", name, ready, err)
	}
	host.Cloud(t, "k8s", "delete", name, "--yes", "--wait")
	return took
}

func progress(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("%s "+format, append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

func report(version string, shapes []*shape) {
	fmt.Printf("\nClusters of Kubernetes %s by kubeadm, seconds, median of %d rounds, images present\n", version, rounds)
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "control planes + workers\tcloud k8s create\tby hand\ttimes\t\n")
	var figures []measure.Figure
	for _, s := range shapes {
		ours, hand := measure.Median(s.ours).Seconds(), measure.Median(s.hand).Seconds()
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.2f\t\n", s, ours, hand, hand/ours)
		name := fmt.Sprintf("kubeadm_%d_%d", s.controlPlanes, s.workers)
		figures = append(figures,
			measure.Figure{Name: name + "_seconds", Value: ours, Unit: "seconds", Target: 60 * float64(s.controlPlanes)},
			measure.Figure{Name: name + "_speedup_over_hand", Value: hand / ours, Unit: "times", Target: map[int]float64{1: 1, 3: 1.5}[s.controlPlanes], Least: true})
	}
	_ = table.Flush()
	fmt.Printf("Ours ends with every node ready, pods' network, DNS and security groups included; by hand with the last join, without any.\n\n")
	for _, figure := range figures {
		fmt.Println(figure)
	}
}
