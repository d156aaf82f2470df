package measure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"golang.org/x/sys/unix"

	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// machinePod is a machine with the images that kubeadm asks for, which it imports when it boots.
var machinePod = template.Must(template.New("machine").Parse(`
apiVersion: v1
kind: Pod
metadata: {name: {{.Name}}}
spec:
  hostname: {{.Name}}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 10
  containers:
  - name: machine
    image: {{.Image}}
    imagePullPolicy: Never
    securityContext: {privileged: true}
    volumeMounts:
    - {name: images, mountPath: /var/lib/plasmacloud/images, readOnly: true}
    - {name: disk, mountPath: /var/lib/containerd, subPath: containerd}
    - {name: disk, mountPath: /var/lib/kubelet, subPath: kubelet}
    - {name: disk, mountPath: /var/lib/etcd, subPath: etcd}
    - {name: run, mountPath: /run}
    - {name: tmp, mountPath: /tmp}
  volumes:
  - {name: images, hostPath: {path: {{.Images}}, type: Directory}}
  - {name: disk, emptyDir: {}}
  - {name: run, emptyDir: {medium: Memory}}
  - {name: tmp, emptyDir: {medium: Memory}}
`))

// KubeadmTimes is how long after its start kubeadm reached what can be compared. The node it makes is not Ready
// before somebody installs a pod network.
type KubeadmTimes struct{ API, Done time.Duration }

// BringMachine gives the node the machine image, and lays down the images for kubeadm inside of it. It returns where.
func BringMachine(t *testing.T, catalogue *release.Catalogue, node *lab.Node, version string) (image, images string) {
	t.Helper()
	machine, err := catalogue.Image(release.ImageMachine, version)
	if err != nil {
		t.Fatal(err)
	}
	node.ImportImages(t, machine.Refs...)
	images = node.Data.Path() + "-kubeadm"
	if err := os.MkdirAll(images, 0o700); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(images, "components.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(catalogue.Export(archive, release.Refs(catalogue.ComponentImages(version)...)...), archive.Close()); err != nil {
		t.Fatal(err)
	}
	return machine.Refs[0], images
}

// Machines boots new machines as pods of the node's cluster, all at once, and returns their addresses when they are up and
// have their images.
func Machines(t *testing.T, node *lab.Node, image, images string, names ...string) []string {
	t.Helper()
	var manifest strings.Builder
	for _, name := range names {
		manifest.WriteString("---")
		if err := machinePod.Execute(&manifest, map[string]string{"Name": name, "Image": image, "Images": images}); err != nil {
			t.Fatal(err)
		}
	}
	node.KubectlWith(t, manifest.String(), "apply", "-f", "-")
	addresses := make([]string, len(names))
	for i, name := range names {
		node.Kubectl(t, "wait", "pod/"+name, "--for=condition=Ready", "--timeout=100s")
		addresses[i] = node.Kubectl(t, "get", "pod", name, "-o", "jsonpath={.status.podIP}")
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for _, name := range names {
		err := Poll(ctx, func() error {
			_, err := node.TryExec(name, "systemctl", "is-active", "containerd", "preload-images")
			return err
		})
		if err != nil {
			t.Fatalf("wait for machine %s to boot: %v\n%s", name, err, node.Exec(t, name, "journalctl", "--no-pager", "--lines=50"))
		}
	}
	return addresses
}

// RemoveMachines ends machines and waits until they are gone.
func RemoveMachines(t *testing.T, node *lab.Node, names ...string) {
	t.Helper()
	node.Kubectl(t, append([]string{"delete", "pod", "--ignore-not-found", "--wait", "--timeout=100s"}, names...)...)
}

// Start has systemd run a command on a machine: it notes when the command began and ended, exactly and on the clock that we
// have too.
func Start(t *testing.T, node *lab.Node, machine, unit string, command ...string) {
	t.Helper()
	node.Exec(t, machine, append([]string{"systemd-run", "--unit=" + unit, "--property=RemainAfterExit=yes", "--setenv=HOME=/root"}, command...)...)
}

// Finish waits until a command that was started has ended, and returns when it began and ended on the monotonic clock.
func Finish(t *testing.T, node *lab.Node, machine, unit string) (began, ended time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
	defer cancel()
	began, ended, err := awaitUnit(ctx, node, machine, unit)
	if err != nil {
		t.Fatalf("%s on %s: %v\n%s", unit, machine, err, node.Exec(t, machine, "journalctl", "--no-pager", "--unit="+unit, "--lines=100"))
	}
	return began, ended
}

// Kubeadm boots a new machine as a pod of the node's cluster and runs `kubeadm init` in it.
func Kubeadm(t *testing.T, node *lab.Node, name, image, images, version string) KubeadmTimes {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
	defer cancel()
	address := Machines(t, node, image, images, name)[0]
	defer RemoveMachines(t, node, name)
	Start(t, node, name, "kubeadm-init", "kubeadm", "init", "--kubernetes-version="+version, "--ignore-preflight-errors=all", "--skip-token-print")
	apiReady, err := awaitReadyz(ctx, node, address)
	if err != nil {
		t.Fatalf("wait for kubeadm's API: %v\n%s", err, node.Exec(t, name, "journalctl", "--no-pager", "--lines=100"))
	}
	began, ended := Finish(t, node, name, "kubeadm-init")
	return KubeadmTimes{API: apiReady - began, Done: ended - began}
}

// awaitReadyz returns when, on the monotonic clock, an API server says that it is ready, which it tells anybody.
func awaitReadyz(ctx context.Context, node *lab.Node, address string) (time.Duration, error) {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DialContext: node.Dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // nothing is said, and nothing believed
	}}
	err := Poll(ctx, func() error {
		response, err := client.Get("https://" + address + ":6443/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	return time.Duration(now.Nano()), nil
}

// awaitUnit returns when, on the monotonic clock, a command that systemd runs began and ended.
func awaitUnit(ctx context.Context, node *lab.Node, pod, unit string) (began, ended time.Duration, err error) {
	properties := map[string]int64{}
	err = Poll(ctx, func() error {
		output, err := node.TryExec(pod, "systemctl", "show", unit, "--property=ExecMainStatus",
			"--property=ExecMainStartTimestampMonotonic", "--property=ExecMainExitTimestampMonotonic")
		if err != nil {
			return err
		}
		for line := range strings.Lines(output) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if properties[name], err = strconv.ParseInt(value, 10, 64); err != nil {
				return fmt.Errorf("read property %s of %s: %w", name, unit, err)
			}
		}
		if properties["ExecMainExitTimestampMonotonic"] == 0 {
			return errors.New("it runs still")
		}
		return nil
	})
	if err == nil && properties["ExecMainStatus"] != 0 {
		err = fmt.Errorf("exit status %d", properties["ExecMainStatus"])
	}
	microseconds := func(name string) time.Duration { return time.Duration(properties[name]) * time.Microsecond }
	return microseconds("ExecMainStartTimestampMonotonic"), microseconds("ExecMainExitTimestampMonotonic"), err
}
