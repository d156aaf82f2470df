package kubeadm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// traffic is how much goes to the host when a control plane is made, roughly; faults are spread over it, so that each of
// the steps meets one.
const traffic = 480 << 10

func moments(count int) []int64 {
	var bytes []int64
	for i := range count {
		bytes = append(bytes, 3<<10+int64(i)*traffic/int64(count))
	}
	return bytes
}

func TestAConnectionThatBreaksInTheMiddleIsResumed(t *testing.T) {
	w := newWorld(t)
	for _, moment := range moments(5) {
		w.reset(t)
		w.proxy.ResetAfter(moment)
		if err := w.everything(newContext(t), w.host(t)); err != nil {
			t.Errorf("broken after %d bytes: %v", moment, err)
		}
		w.proxy.ResetAfter(-1)
	}
}

// reset makes the host as it was before anything was done.
func (w *world) reset(t *testing.T) {
	t.Helper()
	w.Do("rm -rf /etc/kubernetes /var/lib/kubelet /var/lib/plasmacloud /usr/local/lib/plasmacloud /etc/systemd/system/kubelet.service.d /etc/systemd/system/kubelet.service /etc/systemd/system/containerd.service /run/images /run/calls")
}

// A host that goes away in the middle is an error that names it, the step, and what to do; when it is back, the same
// call goes on.
func TestAHostThatGoesAwayIsNamedAndTakenUpAgain(t *testing.T) {
	w := newWorld(t)
	steps := map[string]bool{}
	for _, moment := range moments(4) {
		w.reset(t)
		w.proxy.ResetAfter(moment)
		over, gone := make(chan struct{}), make(chan struct{})
		go func() { // the next connection finds nobody
			defer close(gone)
			for !w.proxy.Spent() {
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
				}
			}
			w.Silence()
		}()
		err := w.everything(newContext(t), w.host(t))
		close(over)
		<-gone
		if !w.proxy.Spent() {
			t.Logf("all was done before %d bytes were sent", moment)
			continue
		}
		failed := &remote.Error{}
		if !errors.As(err, &failed) {
			t.Fatalf("gone after %d bytes: %v", moment, err)
		}
		if failed.Host == "" || failed.Step == "" || failed.Remedy == "" {
			t.Errorf("gone after %d bytes: %v", moment, err)
		}
		steps[failed.Step] = true
		w.proxy.ResetAfter(-1)
		w.Answer()
		if err := w.everything(newContext(t), w.host(t)); err != nil {
			t.Errorf("back after it was gone after %d bytes: %v", moment, err)
		}
	}
	t.Logf("met at %v", steps)
	if len(steps) < 3 {
		t.Errorf("only these steps were met: %v", steps)
	}
}

func TestFaultsSayWhatToDoAndAreResumed(t *testing.T) {
	for name, fault := range map[string]struct {
		inject, mend string
		says         []string
	}{
		"disk full for programs": {
			inject: "mkdir -p /usr/local/lib/plasmacloud && mount -t tmpfs -o size=64k small /usr/local/lib/plasmacloud",
			mend:   "umount -l /usr/local/lib/plasmacloud",
			says:   []string{"programs", "disk full", "make room"},
		},
		"disk full for what kubeadm needs": {
			inject: "mkdir -p /var/lib/plasmacloud/kubeadm && mount -t tmpfs -o size=4k,nr_inodes=2 small /var/lib/plasmacloud/kubeadm && head -c 8192 /dev/zero >/var/lib/plasmacloud/kubeadm/x || :",
			mend:   "umount -l /var/lib/plasmacloud/kubeadm",
			says:   []string{"kubeadm init", "disk full"},
		},
		"a command that hangs": {
			inject: "touch /run/hold", mend: "rm /run/hold",
			says: []string{"kubeadm init", "timed out", "look at the host's load"},
		},
		"kubeadm fails": {
			inject: "touch /run/fail", mend: "rm /run/fail",
			says: []string{"kubeadm init", "exit code 1", "wait-control-plane"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Do(fault.inject)
			host := w.host(t)
			err := w.everything(newContext(t), host)
			assertSays(t, err, fault.says...)
			if !strings.Contains(err.Error(), w.proxy.Address) && !strings.Contains(err.Error(), host.Name) {
				t.Errorf("%q does not name the host", err)
			}
			w.Do(fault.mend)
			if err := w.everything(newContext(t), host); err != nil {
				t.Errorf("mended: %v", err)
			}
		})
	}
}

func TestHostsThatWillNotDoAreToldSoAndTakenOnceMended(t *testing.T) {
	w := newWorld(t)
	host := w.host(t)
	for name, fault := range map[string]struct {
		inject, mend string
		says         []string
	}{
		"another architecture": {
			inject: `printf '#!/bin/sh\n[ "$1" != -m ] || { echo aarch64; exit; }\nexec /usr/bin/uname "$@"\n' >/usr/local/sbin/uname && chmod 755 /usr/local/sbin/uname`,
			mend:   "rm /usr/local/sbin/uname",
			says:   []string{"preflight", "it is arm64", "use a host of that architecture"},
		},
		"no systemd": {
			inject: "rmdir /run/systemd/system", mend: "mkdir /run/systemd/system",
			says: []string{"preflight", "services are run by systemd"},
		},
		"no room": {
			inject: "mkdir -p /run/tiny && mount -t tmpfs -o size=8m tiny /var/lib", mend: "umount -l /var/lib",
			says: []string{"preflight", "free in /var/lib", "make room"},
		},
		"another Kubernetes": {
			inject: "mkdir -p /etc/kubernetes/manifests && echo x >/etc/kubernetes/manifests/x.yaml", mend: "rm -r /etc/kubernetes",
			says: []string{"preflight", "/etc/kubernetes has files in it that are not ours", "kubeadm reset"},
		},
	} {
		w.Do(fault.inject)
		err := w.distribution.Prepare(newContext(t), host, w.cluster, hostsetup.ControlPlane, nil)
		if !errors.Is(err, hostsetup.ErrPreflight) {
			t.Fatalf("%s: %v", name, err)
		}
		assertSays(t, err, append(fault.says, host.Name)...)
		w.Do(fault.mend)
	}
	if err := w.everything(newContext(t), host); err != nil {
		t.Errorf("mended: %v", err)
	}
}

func TestAnotherHostKeyIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	if err := w.distribution.Prepare(newContext(t), w.host(t), w.cluster, hostsetup.ControlPlane, nil); err != nil {
		t.Fatal(err)
	}
	host := w.host(t)
	w.RenewHostKey()
	w.proxy.Drop()
	_, err := w.distribution.Init(newContext(t), host, w.cluster)
	if !errors.Is(err, remote.ErrHostKeyChanged) {
		t.Errorf("init: %v", err)
	}
	assertSays(t, err, "kubeadm init", "host key changed")
	if err := w.everything(newContext(t), w.host(t)); err != nil { // with the new key pinned
		t.Error(err)
	}
}

func TestAUserWithoutSudoIsToldSo(t *testing.T) {
	w := newWorld(t)
	w.AddUser("ops", "")
	w.lay("/etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nPRETTY_NAME=\"Rocky Linux 9.4 (Blue Onyx)\"")
	host := w.host(t)
	there := host.Client.Host()
	there.User = "ops"
	host.Client = w.pool.Client(there)
	err := w.everything(newContext(t), host)
	if !errors.Is(err, remote.ErrSudo) {
		t.Fatal(err)
	}
	assertSays(t, err, "preflight", "NOPASSWD")
	w.Do("echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops && chmod 440 /etc/sudoers.d/ops")
	if err := w.everything(newContext(t), host); err != nil {
		t.Error(err)
	}
}

func TestPreflightChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.Do("rmdir /run/systemd/system")
	const tree = "find /etc /var/lib/plasmacloud /var/lib/kubelet /usr/local /opt -newer /run/given/ca.crt -not -type d 2>/dev/null | sort"
	before := w.Do(tree)
	err := w.distribution.Prepare(newContext(t), w.host(t), w.cluster, hostsetup.Worker, nil)
	found := &hostsetup.PreflightError{}
	if !errors.As(err, &found) || !errors.Is(err, hostsetup.ErrPreflight) || len(found.Findings) != 1 {
		t.Fatal(err)
	}
	if after := w.Do(tree); after != before {
		t.Errorf("there was\n%s\nand is\n%s", before, after)
	}
}

func TestAJoinThatWasInterruptedBeginsAnew(t *testing.T) {
	w := newWorld(t)
	host := w.host(t)
	if err := w.distribution.Prepare(newContext(t), host, w.cluster, hostsetup.Worker, nil); err != nil {
		t.Fatal(err)
	}
	w.Do("mkdir -p /etc/kubernetes && touch /etc/kubernetes/bootstrap-kubelet.conf")
	const token = "abcdef.0123456789abcdef"
	for range 2 {
		if err := w.distribution.JoinWorker(newContext(t), host, w.cluster, token); err != nil {
			t.Fatal(err)
		}
	}
	calls := w.Do("grep -c '^kubeadm reset' /run/calls; grep -c '^kubeadm join' /run/calls; ls -A /var/lib/plasmacloud/kubeadm")
	if want := "1\n1\ncluster.yaml\ndone\nlaid\nlaid.tar"; calls != want {
		t.Errorf("calls and files are\n%s\nnot\n%s", calls, want)
	}
	if listed := w.Do("grep -rl " + token + " /run/calls /var/lib/plasmacloud /etc/kubernetes || :"); listed != "" {
		t.Errorf("the token is in %s", listed)
	}
	if images := w.Do("cut -d' ' -f1 /run/images"); strings.Contains(images, "etcd") || !strings.Contains(images, "kube-proxy") {
		t.Errorf("a worker has the images %s", images)
	}
	other := newWorld(t)
	if err := w.distribution.JoinWorker(newContext(t), host, other.cluster, token); err == nil || !strings.Contains(err.Error(), "part of another cluster") {
		t.Errorf("join of another cluster: %v", err)
	}
}

func TestWhatIsWrongWithAHostIsFoundAndMended(t *testing.T) {
	w := newWorld(t)
	host := w.host(t)
	if err := w.distribution.Prepare(newContext(t), host, w.cluster, hostsetup.Worker, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.distribution.JoinWorker(newContext(t), host, w.cluster, "abcdef.0123456789abcdef"); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		findings, err := w.distribution.Health(newContext(t), host, hostsetup.Worker)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, finding := range findings {
			text = append(text, fmt.Sprintf("%s %s", finding.Check, finding.Subject))
		}
		return strings.Join(text, ", ")
	}
	if found := look(); found != "" {
		t.Errorf("found %s", found)
	}
	w.Do("touch /run/inactive-kubelet.service && echo x >>/var/lib/kubelet/config.yaml && rm /usr/local/lib/plasmacloud/containerd.toml")
	if found, want := look(), "unit kubelet.service, configuration /usr/local/lib/plasmacloud/containerd.toml, configuration /var/lib/kubelet/config.yaml"; found != want {
		t.Errorf("found %s, not %s", found, want)
	}
	findings, err := w.distribution.Health(newContext(t), host, hostsetup.Worker)
	if err != nil {
		t.Fatal(err)
	}
	w.Do("rm /run/inactive-kubelet.service") // the fake does not start what is started
	if err := w.distribution.Repair(newContext(t), host, w.cluster, hostsetup.Worker, findings); err != nil {
		t.Fatal(err)
	}
	if found := look(); found != "" {
		t.Errorf("found %s after the repair", found)
	}
	if calls := w.Do("cat /run/calls"); !strings.Contains(calls, "systemctl restart kubelet.service") {
		t.Errorf("the kubelet was not started anew: %s", calls)
	}
}
