// Package lab is where the end-to-end scenarios take place: nodes of a cluster on one host, each in a network namespace
// of its own with an address on a switched network, running the programs of a built release as processes. A scenario
// starts, stops and kills nodes and looks at them from outside, as an administrator does; nothing is faked.
//
// What a lab makes on the host is named after the test, so that labs run side by side, and a lab begins by removing
// what an earlier, killed run of the same test left. When the test ends the lab takes its nodes down and fails the
// test if anything of them is left.
package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
)

// root is on a disk, not on a tmpfs, and short: paths of sockets below it have a limit.
const root = "/var/lib/plasmacloud-test"

// Lab is one test's network and nodes.
type Lab struct {
	// Dir holds the nodes' data directories, and is free for the test's own files.
	Dir     string
	Release *release.Catalogue

	name     string // begins the names of network namespaces
	repo     string
	nodes    []*Node
	segments map[int]int // addresses given out on each segment
}

var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// New makes a lab for the test, with a network and no nodes yet.
func New(t *testing.T) *Lab {
	t.Helper()
	repo, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	// Another clone may run the same test at the same time.
	sum := sha256.Sum256([]byte(repo + "\n" + t.Name()))
	short := unfit.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-")
	name := fmt.Sprintf("%.12s-%s", short, hex.EncodeToString(sum[:3]))
	l := &Lab{Dir: filepath.Join(root, name), name: "e2e-" + name, repo: repo, segments: map[int]int{}}
	if l.Release, err = openRelease(repo); err != nil {
		t.Fatal(err)
	}
	if err := l.reserve(t); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.sweep(), allowManyNodes(), os.MkdirAll(l.Dir, 0o700)); err != nil {
		t.Fatalf("clear away an earlier run: %v", err)
	}
	t.Cleanup(func() { l.close(t) })
	if err := l.makeSwitch(); err != nil {
		t.Fatal(err)
	}
	return l
}

// repository finds the root of the clone that the test runs in.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the test does not run inside of the repository")
		}
		dir = parent
	}
}

// openRelease opens the release under test: the one the environment names, or the one that this clone has built.
func openRelease(repo string) (*release.Catalogue, error) {
	dir := os.Getenv(release.EnvDir)
	if dir == "" {
		dir = filepath.Join(repo, "_output", "release")
	}
	catalogue, err := release.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("%w\nThe scenarios run a built release: `make distro build` makes one", err)
	}
	for _, program := range []string{"k8shost", "prismnet"} {
		if _, err := catalogue.Binary(program); err != nil {
			return nil, fmt.Errorf("%w\nThe scenarios run a built release: `make distro build` makes one", err)
		}
	}
	return catalogue, nil
}

// reserve makes sure that the same test does not run twice at a time: the second would take the first for a leftover.
func (l *Lab) reserve(t *testing.T) error {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(l.Dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return fmt.Errorf("another run of %s is in progress in %s", t.Name(), l.Dir)
	}
	t.Cleanup(func() {
		_ = os.Remove(file.Name())
		_ = file.Close()
	})
	return nil
}

// allowManyNodes raises a limit of the host that several nodes reach together: each kubelet and containerd watches
// files, and all of them are the same user's.
func allowManyNodes() error {
	const file, enough = "/proc/sys/fs/inotify/max_user_instances", 1024
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(strings.TrimSpace(string(content))); err != nil || now >= enough {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(enough)), 0)
}

// close ends the lab: the logs are saved, the nodes are taken down, and nothing may be left.
func (l *Lab) close(t *testing.T) {
	l.saveLogs(t)
	var purges sync.WaitGroup
	for _, node := range l.nodes {
		purges.Go(func() { node.Purge(t) })
	}
	purges.Wait()
	if err := l.sweep(); err != nil {
		t.Errorf("take down the lab: %v", err)
	}
}

// Step runs a part of a scenario that those after it build upon: where it fails, they need not be tried.
func Step(t *testing.T, name string, fn func(t *testing.T)) {
	t.Helper()
	began := time.Now()
	passed := t.Run(name, fn)
	t.Logf("%-50s %5.1f s", name, time.Since(began).Seconds())
	if !passed {
		t.FailNow()
	}
}

// Eventually polls until check succeeds, and fails the test with its last error when the time is over.
func Eventually(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %s: %v", what, within, err)
		case <-tick.C:
		}
	}
}
