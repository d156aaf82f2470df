//go:build bench

package create

import (
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
	"plasmacloud.io/plasmacloud/test/measure"
)

const (
	rounds = 5
	// kubeadmRounds are fewer: each takes most of a minute.
	kubeadmRounds = 2
	// idle is how long control planes are left alone before their memory is looked at.
	idle = 30 * time.Second
)

// crowds are how many control planes are started at once.
var crowds = []int{5, 10, 20}

func TestCreate(t *testing.T) {
	l := lab.New(t)
	version, err := l.Release.Resolve("")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Node(t, "host")
	host.Cloud(t, "up", "--data-dir", host.Data.Path())
	api := connect(t, host, host.Data.AdminKubeconfig())
	progress(t, "a first cluster, to have everything in memory")
	measureLife(t, host, api, "warm-up")

	var lives []life
	var kubeadm []measure.KubeadmTimes
	image, images := measure.BringMachine(t, l.Release, host, version)
	for round := 1; round <= rounds; round++ {
		one := measureLife(t, host, api, fmt.Sprintf("bench-%d", round))
		progress(t, "round %d: API %.1f s, node %.1f s, pod %.1f s, running %.1f s, deleted %.1f s", round,
			one.api.Seconds(), one.node.Seconds(), one.pod.Seconds(), one.running.Seconds(), one.deleted.Seconds())
		lives = append(lives, one)
		if round <= kubeadmRounds {
			k := measure.Kubeadm(t, host, fmt.Sprintf("machine%d", round), image, images, version)
			progress(t, "kubeadm init, round %d: API %.1f s, done %.1f s", round, k.API.Seconds(), k.Done.Seconds())
			kubeadm = append(kubeadm, k)
		}
	}
	var seen []crowd
	for _, size := range crowds {
		c := measureCrowd(t, host, api, size)
		progress(t, "%d control planes at once: %.1f s, %.0f MB each", size, c.running.Seconds(), c.memory)
		seen = append(seen, c)
	}
	report(version, lives, kubeadm, seen)
	host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes")
}

func progress(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("%s "+format, append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

func report(version string, lives []life, kubeadm []measure.KubeadmTimes, seen []crowd) {
	fmt.Printf("\nHosted clusters of Kubernetes %s with one node, seconds, %d rounds, images present\n", version, rounds)
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	at := func(of func(life) time.Duration, percent int) float64 {
		values := make([]time.Duration, len(lives))
		for i, one := range lives {
			values[i] = of(one)
		}
		return measure.Percentile(values, percent).Seconds()
	}
	parts := []struct {
		name string
		of   func(life) time.Duration
	}{
		{"API answers", func(l life) time.Duration { return l.api }},
		{"node Ready", func(l life) time.Duration { return l.node }},
		{"first pod Running", func(l life) time.Duration { return l.pod }},
		{"cluster RUNNING", func(l life) time.Duration { return l.running }},
		{"deleted", func(l life) time.Duration { return l.deleted }},
	}
	fmt.Fprintf(table, "\tp50\tp95\t\n")
	for _, part := range parts {
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t\n", part.name, at(part.of, 50), at(part.of, 95))
	}
	for _, k := range kubeadm {
		fmt.Fprintf(table, "kubeadm init: API answers, init ends\t%.1f\t%.1f\t\n", k.API.Seconds(), k.Done.Seconds())
	}
	_ = table.Flush()
	fmt.Printf("kubeadm's node has no pod network yet and is not Ready; ours has one and is.\n\n")
	table = tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "control planes at once\tall RUNNING, s\tprivate MB each, idle\t\n")
	var memory float64
	for _, c := range seen {
		fmt.Fprintf(table, "%d\t%.1f\t%.0f\t\n", c.size, c.running.Seconds(), c.memory)
		memory = c.memory
	}
	_ = table.Flush()
	var done []time.Duration
	for _, k := range kubeadm {
		done = append(done, k.Done)
	}
	for _, f := range []measure.Figure{
		{Name: "create_api_seconds", Value: at(parts[0].of, 50), Unit: "seconds", Target: 6},
		{Name: "create_node_seconds", Value: at(parts[1].of, 50), Unit: "seconds", Target: 12},
		{Name: "create_pod_seconds", Value: at(parts[2].of, 50), Unit: "seconds", Target: 14},
		{Name: "delete_seconds", Value: at(parts[4].of, 50), Unit: "seconds", Target: 10},
		{Name: "create_speedup_over_kubeadm", Value: measure.Median(done).Seconds() / at(parts[1].of, 50), Unit: "times", Target: 3, Least: true},
		{Name: "control_plane_private_mb", Value: memory, Unit: "MB", Target: 200},
	} {
		fmt.Println(f)
	}
}
