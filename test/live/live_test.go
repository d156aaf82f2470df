//go:build live

package live

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

// patience is longer than anything takes.
const patience = 2 * time.Hour

// host is the platform on this host, as its administrator uses it.
type host struct{ programs, data string }

func (h host) run(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	output, err := exec.CommandContext(ctx, filepath.Join(h.programs, program), args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output)), err
}

func (h host) TryCloud(args ...string) (string, error) { return h.run("cloud", args...) }

func (h host) TryKubectl(args ...string) (string, error) {
	return h.run("k8shost", append([]string{"kubectl", "--data-dir", h.data}, args...)...)
}

func (h host) Cloud(t testing.TB, args ...string) string {
	t.Helper()
	output, err := h.TryCloud(args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func (h host) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	output, err := h.TryKubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

func TestLive(t *testing.T) {
	products, err := Products(os.Getenv)
	if err != nil {
		t.Fatalf("refused:\n%v", err)
	}
	dir, err := release.Locate("")
	if err != nil {
		t.Fatal(err)
	}
	platform := host{programs: filepath.Join(dir, "bin"), data: os.Getenv("DATA_DIR")}
	if output, err := platform.TryCloud("status", "--data-dir", platform.data); err != nil {
		t.Fatalf("there is no platform on this host; `make up` makes one: %v\n%s", err, output)
	}
	for _, product := range products {
		product.Platform = platform
		t.Run(product.Provider, func(t *testing.T) { life(t, product) })
	}
}

// life makes a network, a cluster and a bucket, looks at them again, changes and removes them.
func life(t *testing.T, p *byoclab.Life) {
	t.Cleanup(func() { sweep(t, p) })
	p.CreateAccount(t)
	p.CreateNetwork(t, "main", "10.0.0.0/16")
	p.CreateCluster(t)
	p.CreateBucket(t)
	p.Unchanged(t)
	p.Scale(t)
	p.Remove(t, "")
	p.Untold(t)
}

// sweep removes what a run that failed has left, and says so where it cannot: it costs money.
func sweep(t *testing.T, p *byoclab.Life) {
	if !t.Failed() {
		return
	}
	for _, thing := range [][]string{{"bucket", "assets"}, {"k8s", "shop"}, {"vpc", "main"}, {"account", "prod"}} {
		if output, err := p.TryCloud(thing[0], "delete", thing[1], "--yes", "--wait", "--timeout", p.Timeout); err != nil {
			t.Logf("%s %s may be left in the account, and cost money: %v\n%s", thing[0], thing[1], err, output)
		}
	}
}
