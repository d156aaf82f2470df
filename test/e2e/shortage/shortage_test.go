//go:build e2e

// Package shortage is the scenario of hosted clusters for which something is missing on the management host: an image,
// the port they ask for, room on the disk. Each says what it lacks, and comes up by itself when it is there.
package shortage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const namespace = "project-default"

func TestShortage(t *testing.T) {
	l := lab.New(t)
	mountDisk(t, l)
	host := l.Node(t, "host")
	lab.Step(t, "up", func(t *testing.T) { host.Cloud(t, "up", "--data-dir", host.Data.Path()) })
	lab.Step(t, "an image is missing", func(t *testing.T) { missingImage(t, l, host) })
	lab.Step(t, "a port is in use", func(t *testing.T) { portInUse(t, host) })
	lab.Step(t, "the disk is full", func(t *testing.T) { fullDisk(t, host, l.Dir) })
	lab.Step(t, "down", func(t *testing.T) { host.Cloud(t, "down", "--data-dir", host.Data.Path(), "--purge", "--yes") })
}

// diskSize is enough for the images of everything and some clusters.
const diskSize = 8 << 30

// mountDisk gives the lab a disk of its own for its data, so that it can run full. It goes when the lab does.
func mountDisk(t *testing.T, l *lab.Lab) {
	t.Helper()
	image, err := os.CreateTemp("", "shortage-*.ext4")
	if err != nil {
		t.Fatal(err)
	}
	// Whoever mounts it holds it for as long as that lasts.
	defer func() {
		if err := errors.Join(image.Close(), os.Remove(image.Name())); err != nil {
			t.Error(err)
		}
	}()
	if err := image.Truncate(diskSize); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image.Name()}, {"mount", "-o", "loop", image.Name(), l.Dir}} {
		if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, output)
		}
	}
}

// missingImage takes the scheduler's image of an older version away, of which there are no clusters yet.
func missingImage(t *testing.T, l *lab.Lab, host *lab.Node) {
	version, err := l.Release.Resolve("v1.35")
	if err != nil {
		t.Fatal(err)
	}
	image := "registry.k8s.io/kube-scheduler:" + version
	host.RemoveImage(t, image)
	create(t, host, "imageless", "--version", "v1.35")
	complains(t, host, "imageless", image, "cloud up")
	host.Cloud(t, "up", "--data-dir", host.Data.Path())
	mended(t, host, "imageless")
}

// portInUse asks for a port that another service of the management cluster has.
func portInUse(t *testing.T, host *lab.Node) {
	const port = "31999"
	host.Kubectl(t, "create", "service", "nodeport", "squatter", "--tcp=80", "--node-port="+port)
	create(t, host, "portless", "--api-port", port)
	complains(t, host, "portless", port, "spec.access.port")
	host.Kubectl(t, "delete", "service", "squatter")
	mended(t, host, "portless")
	output, err := host.TryCloud("k8s", "create", "--name", "odd", "--api-port", "80")
	if err == nil || !strings.Contains(output, "port") {
		t.Errorf("a port that no service can have: %v\n%s", err, output)
	}
}

// fullDisk fills the disk but for so little that the kubelet takes no more pods.
func fullDisk(t *testing.T, host *lab.Node, disk string) {
	ballast := filepath.Join(disk, "ballast")
	fill(t, disk, ballast)
	lab.Eventually(t, 2*time.Minute, "the kubelet notices", func() error { return pressure(host, "True") })
	create(t, host, "roomless")
	complains(t, host, "roomless", "disk")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	mended(t, host, "roomless")
}

// fill leaves less free than the twentieth part at which the kubelet becomes anxious.
func fill(t *testing.T, disk, ballast string) {
	t.Helper()
	var now unix.Statfs_t
	if err := unix.Statfs(disk, &now); err != nil {
		t.Fatal(err)
	}
	size := int64(now.Bavail-now.Blocks/50) * now.Bsize
	file, err := os.Create(ballast)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(file.Fd()), 0, 0, size), file.Close())
	}
	if err != nil {
		t.Fatalf("fill the disk: %v", err)
	}
}

func create(t *testing.T, host *lab.Node, name string, args ...string) {
	t.Helper()
	host.Cloud(t, append([]string{"k8s", "create", "--name", name, "--workers", "0"}, args...)...)
}

// complains waits until the cluster's condition, an event and its task say what is missing.
func complains(t *testing.T, host *lab.Node, name string, words ...string) {
	t.Helper()
	for what, query := range map[string][]string{
		"condition": {"get", "clusters.plasmacloud.io", name, "-n", namespace, "-o", "jsonpath={.status.conditions[*].message}"},
		"task":      {"get", "tasks.plasmacloud.io", "-n", namespace, "-l", "plasmacloud.io/cluster=" + name, "-o", "jsonpath={.items[*].status.error}"},
		"event":     {"get", "events.events.k8s.io", "-n", namespace, "--field-selector", "regarding.name=" + name, "-o", "jsonpath={.items[*].note}"},
	} {
		lab.Eventually(t, 3*time.Minute, name+" says what is missing in its "+what, func() error {
			said, err := host.TryKubectl(query...)
			if err != nil {
				return err
			}
			for _, word := range words {
				if !strings.Contains(said, word) {
					return fmt.Errorf("no %q in %q", word, said)
				}
			}
			return nil
		})
	}
}

// mended waits until the cluster has come up by itself, and removes it.
func mended(t *testing.T, host *lab.Node, name string) {
	t.Helper()
	lab.Eventually(t, 5*time.Minute, name+" runs", func() error {
		phase, err := host.TryKubectl("get", "clusters.plasmacloud.io", name, "-n", namespace, "-o", "jsonpath={.status.phase}")
		if err == nil && phase != "RUNNING" {
			err = fmt.Errorf("it is %s", phase)
		}
		return err
	})
	host.Cloud(t, "k8s", "delete", name, "--yes", "--wait")
	(&lab.Tenant{Host: host, Project: "default", Name: name}).AwaitGone(t)
}

func pressure(host *lab.Node, want string) error {
	is, err := host.TryKubectl("get", "nodes", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="DiskPressure")].status}`)
	if err == nil && is != want {
		err = fmt.Errorf("disk pressure is %q", is)
	}
	return err
}
