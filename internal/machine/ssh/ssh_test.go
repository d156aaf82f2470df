package ssh

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/drivertest"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/ssh/sshtest"
)

func TestConformance(t *testing.T) {
	w := newWorld(t, 16)
	drivertest.Run(t, drivertest.Implementation{
		// A driver for each test, as if each were a process, on the same records and hosts.
		New:       func(*testing.T) machine.Driver { return w.driver() },
		Namespace: "project-a", Patience: patience, Interval: 20 * time.Millisecond,
	})
}

func TestAHostIsLeasedOnce(t *testing.T) {
	w := newWorld(t, 3)
	drivers := []*Driver{w.driver(), w.driver()}
	var creations sync.WaitGroup
	var mu sync.Mutex
	var made []machine.Key
	for i := range 8 {
		creations.Go(func() {
			spec := newSpec(fmt.Sprint("m", i))
			_, err := drivers[i%2].Create(t.Context(), spec)
			if err != nil && !errors.Is(err, machine.ErrNoCapacity) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				made = append(made, spec.Key)
			}
		})
	}
	creations.Wait()
	if len(made) > 3 || len(made) == 0 {
		t.Fatalf("%d machines on 3 hosts", len(made))
	}
	holders := map[string]bool{}
	for _, key := range made {
		running := w.awaitState(drivers[0], key, machine.StateRunning)
		holders[running.ID] = true
	}
	for _, host := range w.hosts {
		if owner, err := host.Try("cat " + claimFile); err == nil && !holders[owner] {
			t.Errorf("a host is %q's, who is none of %v", owner, holders)
		}
	}
	if machines, err := drivers[1].List(t.Context(), machine.Filter{}); err != nil || len(machines) != len(made) {
		t.Errorf("%+v, error %v", machines, err)
	}
	if len(made) == 3 {
		_, err := drivers[0].Create(t.Context(), newSpec("one-more"))
		if !errors.Is(err, machine.ErrNoCapacity) || !strings.Contains(err.Error(), "of the 3 hosts of account lab, 3 are leased") {
			t.Errorf("error %v", err)
		}
	}
}

func TestOneHostInTwoInstallations(t *testing.T) {
	w := newWorld(t, 1)
	w.create(w.driver(), newSpec("m0"))
	other := w.driver(func(config *Config) { config.Records = newMemory() })
	if _, err := other.Create(t.Context(), newSpec("theirs")); err != nil {
		t.Fatal(err)
	}
	failed := w.awaitState(other, newSpec("theirs").Key, machine.StateFailed)
	if !strings.Contains(failed.Message, "it is leased to machine") || !strings.Contains(failed.Message, w.hosts[0].Address) {
		t.Errorf("message %q", failed.Message)
	}
	w.remove(other, failed.Key)
	w.awaitGone(other, failed.Key)
	if out := w.hosts[0].Do("cat " + claimFile); out == "" {
		t.Error("the first lost its host")
	}
}

// dirty makes of a host what a node leaves behind.
const dirty = `set -e
mkdir -p /var/lib/k8shost/agent /run/k8shost/x /var/lib/plasmacloud /usr/local/lib/plasmacloud/release /usr/local/bin
mount -t tmpfs x /var/lib/k8shost/agent && mount -t tmpfs y /run/k8shost/x
ip link add prism-0123abcd type veth peer name pn0123456789abc && ip link add mine type veth peer name mine-too
nft add table inet prismnet-0123abcd && nft add table inet plasmacloud && nft add table inet mine
printf '#!/bin/sh\necho "$@" >>/var/log/k8shost-called\n' >/usr/local/bin/k8shost && chmod 755 /usr/local/bin/k8shost
mkdir -p /root/.ssh && echo 'ssh-ed25519 MINE me' >>/root/.ssh/authorized_keys
echo half >/etc/k8shost/.token.0123.part
`

func TestAHostIsReturnedClean(t *testing.T) {
	w := newWorld(t, 1)
	cleaner := &kubeadm{}
	driver := w.driver(func(config *Config) { config.Cleaner = cleaner })
	spec := newSpec("m0")
	spec.Files = map[string][]byte{"/etc/k8shost/token": []byte("secret"), "/srv/some/file": []byte("x")}
	spec.AuthorizedKeys = []string{"ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"}
	w.create(driver, spec)
	host := w.hosts[0]
	if got := host.Do("cat /etc/k8shost/token /root/.ssh/authorized_keys; stat -c %a /etc/k8shost/token /srv/some/file"); got != "secret# plasmacloud begin\nssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n# plasmacloud end\n600\n600" {
		t.Errorf("there is %q", got)
	}
	client, err := driver.Reach(t.Context(), spec.Key)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := client.Run(t.Context(), remote.Command{Step: "look", Args: []string{"id", "-u"}}); err != nil || result.Stdout != "0\n" {
		t.Errorf("%+v, error %v", result, err)
	}
	host.Do(dirty)
	w.remove(driver, spec.Key)
	w.awaitGone(driver, spec.Key)
	if left := host.Do("cat " + "/etc/plasmacloud-lease/* 2>/dev/null; ls -d /var/lib/k8shost /run/k8shost /var/lib/plasmacloud /usr/local/lib/plasmacloud /etc/k8shost/.token* /etc/k8shost/token /srv/some/file 2>/dev/null || :"); left != "" {
		t.Errorf("left is %q", left)
	}
	if got := host.Do("cat /root/.ssh/authorized_keys; nft list tables; sed -n 's/^ *\\(.*\\):.*/\\1/p' /proc/net/dev | grep 'mine\\|prism\\|pn0' | sort; cat /var/log/k8shost-called; grep -c k8shost /proc/self/mounts || :"); got !=
		"ssh-ed25519 MINE me\ntable inet mine\nmine\nmine-too\ndown --data-dir /var/lib/k8shost --purge\n0" {
		t.Errorf("left is %q", got)
	}
	if cleaner.calls != 1 {
		t.Errorf("the cleaner was called %d times", cleaner.calls)
	}
	if _, err := client.Run(t.Context(), remote.Command{Step: "late", Args: []string{"touch", "/etc/late"}}); !errors.Is(err, remote.ErrGuard) {
		t.Errorf("work on a host that was given back: %v", err)
	}
	w.create(driver, newSpec("next"))
}

// kubeadm is a cleaner that can fail.
type kubeadm struct {
	mu     sync.Mutex
	calls  int
	broken error
}

func (k *kubeadm) Clean(ctx context.Context, host *remote.Client) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.broken != nil {
		return k.broken
	}
	_, err := host.RunIdempotent(ctx, remote.Command{Step: "kubeadm reset", Args: []string{"true"}})
	return err
}

func TestAHostThatIsNotCleanIsNotGivenBack(t *testing.T) {
	w := newWorld(t, 1)
	cleaner := &kubeadm{broken: errors.New("etcd hangs")}
	driver := w.driver(func(config *Config) { config.Cleaner = cleaner })
	spec := newSpec("m0")
	w.create(driver, spec)
	w.remove(driver, spec.Key)
	w.await(driver, spec.Key, "deleting, with the reason", func(m *machine.Machine) bool {
		return m != nil && m.State == machine.StateDeleting && strings.Contains(m.Message, "etcd hangs")
	})
	if _, err := driver.Create(t.Context(), newSpec("next")); !errors.Is(err, machine.ErrNoCapacity) {
		t.Errorf("a dirty host was leased: %v", err)
	}
	cleaner.mu.Lock()
	cleaner.broken = nil
	cleaner.mu.Unlock()
	// Then something that nobody removes: a process of ours.
	w.hosts[0].Do("cp /bin/sleep /usr/local/bin/k8shost; setsid /usr/local/bin/k8shost 1000 >/dev/null 2>&1 &")
	w.await(driver, spec.Key, "deleting, with what is left", func(m *machine.Machine) bool {
		return m != nil && strings.Contains(m.Message, "left are process")
	})
	w.hosts[0].Do("pkill -x k8shost; rm /usr/local/bin/k8shost")
	w.awaitGone(driver, spec.Key)
	w.create(driver, newSpec("next"))
}

func TestAHostThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t, 1)
	driver := w.driver()
	spec := newSpec("m0")
	w.create(driver, spec)
	w.hosts[0].Silence()
	w.remove(driver, spec.Key)
	w.await(driver, spec.Key, "deleting, with the reason", func(m *machine.Machine) bool {
		return m != nil && m.State == machine.StateDeleting && strings.Contains(m.Message, "connection refused") && strings.Contains(m.Message, "remove it from the account")
	})
	w.hosts[0].Answer()
	w.awaitGone(driver, spec.Key)
	w.create(driver, spec)
	// One that is gone for good is struck off the inventory.
	w.hosts[0].Silence()
	w.remove(driver, spec.Key)
	w.inventory.set()
	w.awaitGone(driver, spec.Key)
}

func TestAHostThatIsNoGoodIsPassedOver(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(*sshtest.Host)
		adjust func(*machine.Spec)
		says   []string
	}{
		"silent":      {spoil: (*sshtest.Host).Silence, says: []string{"connection refused", "verify host"}},
		"another key": {spoil: (*sshtest.Host).RenewHostKey, says: []string{"host key changed", "SHA256:"}},
		"no login":    {spoil: func(h *sshtest.Host) { h.NewKey("authorized_keys") }, says: []string{"login refused", "authorized_keys"}},
		"wrong architecture": {spoil: func(h *sshtest.Host) {
			h.Do(`rm /usr/bin/uname && printf '#!/bin/sh\necho riscv64\n' >/usr/bin/uname && chmod 755 /usr/bin/uname`)
		}, says: []string{"wrong architecture", "riscv64"}},
		"too small": {spoil: func(h *sshtest.Host) {
			h.Do(`rm /usr/bin/nproc && printf '#!/bin/sh\necho 1\n' >/usr/bin/nproc && chmod 755 /usr/bin/nproc`)
		},
			adjust: func(spec *machine.Spec) { spec.CPU = resource.MustParse("2") }, says: []string{"it has 1 of CPU, and 2 are asked for"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			driver := w.driver(func(config *Config) { config.Architectures = []string{"amd64", "arm64"} })
			c.spoil(w.hosts[0])
			spec := newSpec("m0")
			if c.adjust != nil {
				c.adjust(&spec)
			}
			w.create(driver, spec)
			if _, err := w.hosts[1].Try("test -e " + claimFile); err != nil {
				t.Error("the good host is not leased")
			}
			spec.Key.Name = "m1"
			if _, err := driver.Create(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			failed := w.awaitState(driver, spec.Key, machine.StateFailed)
			for _, part := range append(c.says, w.hosts[0].Address) {
				if !strings.Contains(failed.Message, part) {
					t.Errorf("%q does not say %q", failed.Message, part)
				}
			}
			w.remove(driver, spec.Key)
			w.awaitGone(driver, spec.Key)
		})
	}
}

func TestTrustOnFirstUseIsRemembered(t *testing.T) {
	w := newWorld(t, 1)
	untold := w.host(w.hosts[0])
	untold.Access.HostKey, untold.TrustOnFirstUse = "", true
	w.inventory.set(untold)
	spec := newSpec("m0")
	driver := w.driver()
	w.create(driver, spec)
	w.remove(driver, spec.Key)
	w.awaitGone(driver, spec.Key)
	w.hosts[0].RenewHostKey()
	w.hosts[0].Disconnect()
	other := w.driver() // as after a restart
	if _, err := other.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if failed := w.awaitState(other, spec.Key, machine.StateFailed); !strings.Contains(failed.Message, "host key changed") {
		t.Errorf("message %q", failed.Message)
	}
}

func TestAnotherProcessTakesOver(t *testing.T) {
	w := newWorld(t, 1)
	spec := newSpec("m0")
	spec.Files = map[string][]byte{"/etc/motd.d/hello": []byte("hello")}
	first := w.driver()
	first.Close() // it never gets to its machines
	if m, err := first.Create(t.Context(), spec); err != nil || m.State != machine.StatePending {
		t.Fatal(m, err)
	}
	second := w.driver()
	w.awaitState(second, spec.Key, machine.StateRunning)
	if got := w.hosts[0].Do("cat /etc/motd.d/hello"); got != "hello" {
		t.Errorf("there is %q", got)
	}
	w.remove(first, spec.Key)
	w.awaitGone(second, spec.Key)
}

func TestAHostThatIsKnownByNameTellsItsAddress(t *testing.T) {
	w := newWorld(t, 1)
	host := w.host(w.hosts[0])
	host.Access.Address = "localhost"
	w.inventory.set(host)
	driver := w.driver()
	if _, err := driver.Create(t.Context(), newSpec("lost")); err != nil {
		t.Fatal(err)
	}
	failed := w.awaitState(driver, newSpec("lost").Key, machine.StateFailed)
	if !strings.Contains(failed.Message, "localhost") || !strings.Contains(failed.Message, "give its IP address") {
		t.Errorf("without an address: %s", failed.Message)
	}
	w.remove(driver, failed.Key)
	w.awaitGone(driver, failed.Key)
	w.hosts[0].Do("ip link add eth0 type veth peer name cable && ip addr add 10.9.8.7/24 dev eth0 && ip link set eth0 up && ip link set cable up && ip route add default via 10.9.8.1")
	if made := w.create(driver, newSpec("m0")); made.Address != "10.9.8.7" {
		t.Errorf("address %s", made.Address)
	}
	occupied, err := driver.Occupancy(t.Context(), types.NamespacedName{})
	if err != nil || len(occupied) != 1 || occupied[0].Holder.Name != "m0" || occupied[0].HostKey != host.Access.HostKey {
		t.Errorf("%+v: %v", occupied, err)
	}
}

func TestAForgottenMachineGivesItsHostBack(t *testing.T) {
	w := newWorld(t, 1)
	driver := w.driver()
	spec := newSpec("m0")
	w.create(driver, spec)
	w.hosts[0].Silence()
	if err := driver.Delete(t.Context(), spec.Key); err != nil {
		t.Fatal(err)
	}
	// Nobody asks for the machine any more; only the account is looked at.
	for range 3 {
		if occupied, err := driver.Occupancy(t.Context(), types.NamespacedName{}); err != nil || occupied[0].Holder.Name != "m0" {
			t.Fatalf("%+v: %v", occupied, err)
		}
	}
	w.hosts[0].Answer()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		occupied, err := driver.Occupancy(t.Context(), types.NamespacedName{})
		if err != nil {
			t.Fatal(err)
		}
		if occupied[0].Holder.Name == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the host is still %s's", occupied[0].Holder)
		}
	}
}
