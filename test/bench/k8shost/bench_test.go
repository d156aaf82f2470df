//go:build bench

package k8shost

import (
	"fmt"
	"io"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
	"plasmacloud.io/plasmacloud/test/measure"
)

const (
	rounds = 3
	// idle is how long a server is left alone before its memory is looked at.
	idle = time.Minute
)

// results is everything that was measured.
type results struct {
	version string
	starts  []start
	kubeadm []measure.KubeadmTimes

	server, shims, pods []measure.Program
	cpu                 float64 // share of one core, idle
	binaries            map[string]int64
	dataDir             int64
}

func TestK8shost(t *testing.T) {
	l := lab.New(t)
	version, err := l.Release.Resolve("")
	if err != nil {
		t.Fatal(err)
	}
	r := &results{version: version}
	if r.binaries, err = binarySizes(l.Release, version); err != nil {
		t.Fatal(err)
	}
	// This one lends its machine pods to kubeadm. Starting it also brings all programs into memory, so that no round
	// measures the disk.
	host := l.Node(t, "host")
	measureStart(t, host)
	host.Kubectl(t, "delete", "pod", "first")
	progress(t, "leaving a server idle for %s", idle)
	r.measureIdle(t, host)

	// The two take turns, beside the same idle server: a machine that gets busy in between slows down both.
	image, images := measure.BringMachine(t, l.Release, host, version)
	for round := 1; round <= rounds; round++ {
		node := l.Node(t, fmt.Sprintf("server%d", round))
		s := measureStart(t, node)
		node.Purge(t)
		progress(t, "k8shost, round %d: API %.1f s, node %.1f s, pod %.1f s", round, s.api.Seconds(), s.node.Seconds(), s.pod.Seconds())
		r.starts = append(r.starts, s)

		k := measure.Kubeadm(t, host, fmt.Sprintf("machine%d", round), image, images, version)
		progress(t, "kubeadm, round %d: API %.1f s, done %.1f s", round, k.API.Seconds(), k.Done.Seconds())
		r.kubeadm = append(r.kubeadm, k)
	}
	r.print(os.Stdout)
}

func progress(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("%s "+format, append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

func (r *results) measureIdle(t *testing.T, node *lab.Node) {
	t.Helper()
	cpu := func() (total time.Duration) {
		programs, err := measure.ServerPrograms(node)
		if err != nil {
			t.Fatal(err)
		}
		r.server = programs
		for _, p := range programs {
			total += p.CPU
		}
		return total
	}
	before := cpu()
	<-time.After(idle)
	r.cpu = (cpu() - before).Seconds() / idle.Seconds()
	var err error
	if r.shims, r.pods, err = measure.PodPrograms(node); err != nil {
		t.Fatal(err)
	}
	if r.dataDir, err = diskUse(node.Data.Path()); err != nil {
		t.Fatal(err)
	}
}

func (r *results) print(w io.Writer) {
	middle := func(of func(int) time.Duration) float64 {
		values := make([]time.Duration, rounds)
		for i := range values {
			values[i] = of(i)
		}
		return measure.Median(values).Seconds()
	}
	api := middle(func(i int) time.Duration { return r.starts[i].api })
	node := middle(func(i int) time.Duration { return r.starts[i].node })
	pod := middle(func(i int) time.Duration { return r.starts[i].pod })
	kubeadmAPI := middle(func(i int) time.Duration { return r.kubeadm[i].API })
	kubeadmDone := middle(func(i int) time.Duration { return r.kubeadm[i].Done })
	resident := float64(measure.Sum(r.server, measure.PSS)) / measure.Mebibyte

	fmt.Fprintf(w, "\nKubernetes %s, medians of %d rounds, seconds from start, images present\n", r.version, rounds)
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) { fmt.Fprintf(table, "%s\t%s\t%s\t\n", cells...) }
	seconds := func(value float64) string { return fmt.Sprintf("%.1f", value) }
	row("", "k8shost", "kubeadm init")
	row("API ready", seconds(api), seconds(kubeadmAPI))
	row("kubeadm init ends", "-", seconds(kubeadmDone))
	row("node Ready", seconds(node), "(wants a pod network)")
	row("first pod Running", seconds(pod), "(wants a pod network)")
	_ = table.Flush()
	fmt.Fprintf(w, "Both took turns beside an idle k8shost server, which takes %.0f %% of one core; kubeadm in a machine pod on it.\n", 100*r.cpu)

	fmt.Fprintf(w, "\nIdle server, MB\n")
	table = tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	megabytes := func(value int64) string { return fmt.Sprintf("%.1f", float64(value)/measure.Mebibyte) }
	row("", "resident (PSS)", "RSS")
	for _, p := range r.server {
		row(p.Name, megabytes(p.PSS), megabytes(p.RSS))
	}
	row("sum", megabytes(measure.Sum(r.server, measure.PSS)), megabytes(measure.Sum(r.server, measure.RSS)))
	row(fmt.Sprintf("not in it: %d shims", len(r.shims)), megabytes(measure.Sum(r.shims, measure.PSS)), megabytes(measure.Sum(r.shims, measure.RSS)))
	row(fmt.Sprintf("not in it: %d pods' processes", len(r.pods)), megabytes(measure.Sum(r.pods, measure.PSS)), megabytes(measure.Sum(r.pods, measure.RSS)))
	_ = table.Flush()

	var binaries int64
	for _, size := range r.binaries {
		binaries += size
	}
	fmt.Fprintf(w, "\nOn disk: %s MB of programs (%s MB of it Kubernetes itself), %s MB data directory with its images\n\n",
		megabytes(binaries), megabytes(r.binaries["kube"]), megabytes(r.dataDir))

	for _, f := range []measure.Figure{
		{Name: "api_ready_seconds", Value: api, Unit: "seconds", Target: 5},
		{Name: "node_ready_seconds", Value: node, Unit: "seconds", Target: 10},
		{Name: "first_pod_seconds", Value: pod, Unit: "seconds", Target: 12},
		{Name: "speedup_over_kubeadm", Value: kubeadmDone / node, Unit: "times", Target: 4, Least: true},
		{Name: "idle_resident_mb", Value: resident, Unit: "MB", Target: 700},
	} {
		fmt.Fprintln(w, f)
	}
}
