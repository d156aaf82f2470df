package k3s

import (
	"errors"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

const restarted = "systemctl restart --no-block k8shost-server.service"

func TestAServerIsRestartedOnlyForSomethingNew(t *testing.T) {
	w := newWorld(t)
	ctx, host := newContext(t), w.host(t)
	for range 2 {
		if err := w.everything(ctx, host); err != nil {
			t.Fatal(err)
		}
	}
	if count := w.called(restarted); count != 1 {
		t.Errorf("it was started %d times:\n%s", count, w.Do("cat /run/calls"))
	}
	if mode := w.Do("stat -c '%a %U' /etc/k8shost/server.yaml"); strings.TrimSpace(mode) != "600 root" {
		t.Errorf("its settings are %s", mode)
	}
	w.cluster.SANs = append(w.cluster.SANs, "new.example.com")
	if err := w.everything(ctx, host); err != nil {
		t.Fatal(err)
	}
	if count := w.called(restarted); count != 2 {
		t.Errorf("with other settings, it was started %d times", count)
	}
}

func TestTheTokenGoesFromServerToServerAndIntoNoCommand(t *testing.T) {
	w := newWorld(t)
	ctx, host := newContext(t), w.host(t)
	w.lay(clusterToken, "K10secret-of-the-cluster")
	if err := w.distribution.JoinControlPlane(ctx, host, host, w.cluster, func() {}); err != nil {
		t.Fatal(err)
	}
	if token := w.Do("cat " + tokenFile); strings.TrimSpace(token) != "K10secret-of-the-cluster" {
		t.Errorf("the token is %q", token)
	}
	if settings := w.Do("cat /etc/k8shost/server.yaml"); !strings.Contains(settings, "server: https://192.0.2.10:30443") || strings.Contains(settings, "secret") {
		t.Errorf("the settings are\n%s", settings)
	}
	// The certificate's renewal calls Init on any server: it stays what it was.
	if _, err := w.distribution.Init(ctx, host, w.cluster); err != nil {
		t.Fatal(err)
	}
	if count := w.called(restarted); count != 1 || strings.Contains(w.Do("cat /run/calls"), "secret") {
		t.Errorf("started %d times, by\n%s", count, w.Do("cat /run/calls"))
	}
	w.cluster.HA = false
	if err := w.distribution.JoinControlPlane(ctx, host, host, w.cluster, func() {}); err == nil || !strings.Contains(err.Error(), "SQLite") {
		t.Errorf("a second server of a single one: %v", err)
	}
}

func TestAConnectionThatBreaksInTheMiddleIsResumed(t *testing.T) {
	w := newWorld(t)
	const traffic, times = 330 << 10, 10
	for i := range times {
		w.reset(t)
		w.proxy.ResetAfter(3<<10 + int64(i)*traffic/times)
		if err := w.everything(newContext(t), w.host(t)); err != nil {
			t.Errorf("broken the %d. time: %v", i+1, err)
		}
		w.proxy.ResetAfter(-1)
	}
}

func TestWhatDoesNotComeUpSaysWhy(t *testing.T) {
	w := newWorld(t)
	ctx, host := newContext(t), w.host(t)
	w.Do("touch /run/broken")
	w.lay(logFile, "k8shost: port 6443: taken by nginx")
	err := w.everything(ctx, host)
	for _, part := range []string{"k8shost-server.service does not come up", "taken by nginx", "init", logFile} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	w.Do("rm /run/broken")
	if err := w.everything(ctx, host); err != nil {
		t.Errorf("once it is mended: %v", err)
	}
}

func TestHostsAreJudgedBeforeAnythingIsStarted(t *testing.T) {
	w := newWorld(t)
	w.lay("/run/judgement", `{"findings":[{"level":"missing","name":"nft","what":"not in PATH","remedy":"install nftables"},{"level":"ok","name":"mount","what":"there"}]}`)
	err := w.everything(newContext(t), w.host(t))
	if !errors.Is(err, hostsetup.ErrPreflight) || !strings.Contains(err.Error(), "install nftables") || strings.Contains(err.Error(), "mount") {
		t.Errorf("a host without nft: %v", err)
	}
	if w.called("systemctl restart") > 0 {
		t.Error("something was started")
	}
	w.cluster.Network.CNI = hostsetup.CNINone
	if err := w.everything(newContext(t), w.host(t)); !errors.Is(err, hostsetup.ErrPreflight) || !strings.Contains(err.Error(), "PrismNET") {
		t.Errorf("a cluster without a pod network: %v", err)
	}
}

func TestMembersAreRemovedUnlessThatCostsTheQuorum(t *testing.T) {
	w := newWorld(t)
	ctx, host := newContext(t), w.host(t)
	if err := w.everything(ctx, host); err != nil {
		t.Fatal(err)
	}
	if err := w.distribution.RemoveMember(ctx, host, "dev-2"); err != nil || w.called("etcd-member remove --data-dir /var/lib/k8shost -- dev-2") != 1 {
		t.Errorf("remove a member: %v\n%s", err, w.Do("cat /run/calls"))
	}
	w.Do("touch /run/minority")
	if err := w.distribution.RemoveMember(ctx, host, "dev-2"); !errors.Is(err, hostsetup.ErrQuorum) {
		t.Errorf("remove one too many: %v", err)
	}
}

func TestFaultsAreFoundAndRepaired(t *testing.T) {
	w := newWorld(t)
	ctx, host := newContext(t), w.host(t)
	if err := w.everything(ctx, host); err != nil {
		t.Fatal(err)
	}
	w.Do("mkdir -p /var/lib/k8shost/server/tls")
	w.lay("/var/lib/k8shost/server/tls/admin.crt", string(certificate(t, time.Now().Add(24*time.Hour))))
	w.Do("systemctl stop k8shost-server.service; echo more >>/etc/k8shost/server.yaml")
	findings, err := w.distribution.Health(ctx, host, hostsetup.ControlPlane)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range findings {
		found[f.Check] = f.Subject
	}
	if found[CheckService] != "k8shost-server.service" || found[CheckConfiguration] != "/etc/k8shost/server.yaml" || found[CheckCertificates] != "/var/lib/k8shost/server/tls/admin.crt" {
		t.Fatalf("found %v", findings)
	}
	if err := w.distribution.Repair(ctx, host, w.cluster, hostsetup.ControlPlane, findings); err != nil {
		t.Fatal(err)
	}
	w.Do("rm /var/lib/k8shost/server/tls/admin.crt")
	if findings, err := w.distribution.Health(ctx, host, hostsetup.ControlPlane); err != nil || len(findings) > 0 {
		t.Errorf("repaired: %v, %v", findings, err)
	}
}

func TestACleanedHostHasNothingLeft(t *testing.T) {
	w := newWorld(t)
	ctx, host := newContext(t), w.host(t)
	if err := w.everything(ctx, host); err != nil {
		t.Fatal(err)
	}
	w.Do("mkdir -p /var/lib/k8shost && touch /var/lib/k8shost/lock")
	for range 2 {
		if err := w.distribution.Clean(ctx, host.Client); err != nil {
			t.Fatal(err)
		}
	}
	left := w.Do("ls -d /etc/k8shost /var/lib/k8shost /run/k8shost /usr/local/lib/plasmacloud /usr/local/bin/k8shost /etc/systemd/system/k8shost* " + hostsetup.MarkFile + " 2>/dev/null || :")
	if strings.TrimSpace(left) != "" {
		t.Errorf("left are\n%s", left)
	}
}
