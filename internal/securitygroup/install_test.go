package securitygroup_test

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/securitygroup"
)

// What the table of a cluster's rules opens, and what besides it listens on a machine.
var (
	openTCP   = []int{6443, 179, 10250, 30000, 32767}
	openUDP   = []int{4789, 30000, 32767}
	closedTCP = []int{80, 2379, 2380, 6444, 10249, 10255, 29999, 32768}
	closedUDP = []int{53, 179, 4790, 6443, 8472, 29999, 32768}
)

// serve has everything listen.
func (w *world) serve() {
	w.Helper()
	for _, p := range append(openTCP, closedTCP...) {
		w.machine.ServeTCP("0.0.0.0:" + port(p))
	}
	for _, p := range append(openUDP, closedUDP...) {
		w.machine.ServeUDP("0.0.0.0:" + port(p))
	}
	w.opens(w.outside, "tcp", true, append(openTCP, closedTCP...)...)
	w.opens(w.outside, "udp", true, append(openUDP, closedUDP...)...)
}

func (w *world) isProtected() {
	w.Helper()
	w.opens(w.outside, "tcp", true, openTCP...)
	w.opens(w.outside, "udp", true, openUDP...)
	w.opens(w.outside, "tcp", false, closedTCP...)
	w.opens(w.outside, "udp", false, closedUDP...)
}

func TestAllowedPortsAnswerAndOthersDoNot(t *testing.T) {
	w := newWorld(t, 22)
	w.serve()
	w.install(defaultPolicy(t))
	w.isProtected()
	// Pods are at home on their machine.
	w.opens(w.pod, "tcp", true, 2379, 80)
	// What claims to be a pod, and is not where pods are, is not let in.
	w.outside.Do(func() error { return exec.Command("ip", "address", "add", "192.168.5.99/32", "dev", "lo").Run() })
	heard := w.machine.ListenUDP("0.0.0.0:5353")
	if err := w.outside.ThrowUDP("192.168.5.99", machineAddress+":5353"); err != nil {
		t.Fatal(err)
	}
	if from, err := heard(); err == nil {
		t.Errorf("a datagram from %s came in by the wrong interface", from)
	}
	// Who knows the machine only by its address finds it.
	w.outside.Do(func() error { return exec.Command("ip", "neighbour", "flush", "all").Run() })
	w.opens(w.outside, "tcp", true, 6443)
	if w.ping() == nil {
		t.Error("the machine answers ping, for which there is no rule")
	}
	// What the machine begins is answered.
	w.outside.ServeTCP(outsideAddress + ":8080")
	if _, err := w.machine.SendTCP(outsideAddress+":8080", 1000); err != nil {
		t.Errorf("the machine gets no answer: %v", err)
	}
	// Any address of the machine is protected, also the one that pods see.
	w.outside.Route("192.168.5.0/24", machineAddress)
	if !w.outside.BlockedTCP(podGateway + ":2379") {
		t.Error("port 2379 answers at another address of the machine")
	}
}

func TestRulesSayFromWhereAndWhat(t *testing.T) {
	w := newWorld(t, 22)
	w.serve()
	w.outside.Do(func() error { return exec.Command("ip", "address", "add", officeAddress+"/24", "dev", "eth0").Run() })
	policy := defaultPolicy(t)
	policy.Group.Rules = []v1alpha1.SecurityRule{
		{Protocol: v1alpha1.ProtocolTCP, Ports: "80", Source: "10.90.0.64/26"},
		{Protocol: v1alpha1.ProtocolICMP},
	}
	policy.Internal = securitygroup.Etcd(outsideAddress)
	w.install(policy)
	w.opens(w.outside, "tcp", true, 2379, 2380)
	w.opens(w.outside, "tcp", false, 80, 6443)
	if err := w.ping(); err != nil {
		t.Errorf("the machine does not answer ping: %v", err)
	}
	err := w.outside.Try(func() error {
		office := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(officeAddress)}, Timeout: 5 * time.Second}
		conn, err := office.Dial("tcp", machineAddress+":80")
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		t.Errorf("who is let in gets no answer: %v", err)
	}
}

func TestPortsAreThoseThatTheSenderWrote(t *testing.T) {
	w := newWorld(t, 22)
	w.pod.ServeTCP(podAddress + ":80")
	// As kube-proxy does for a NodePort, and a pod network for a host port.
	w.host.Do(`nft 'table ip kube-proxy { chain nat { type nat hook prerouting priority -100; tcp dport { 30081, 8081 } dnat to ` + podAddress + `:80; }; }'`)
	before := w.host.Do("nft list table ip kube-proxy")
	w.opens(w.outside, "tcp", true, 30081, 8081)
	w.install(defaultPolicy(t))
	w.opens(w.outside, "tcp", true, 30081)
	w.opens(w.outside, "tcp", false, 8081)
	if err := securitygroup.Remove(t.Context(), w.client); err != nil {
		t.Fatal(err)
	}
	w.opens(w.outside, "tcp", true, 30081, 8081)
	if after := w.host.Do("nft list table ip kube-proxy"); after != before {
		t.Errorf("another's table was\n%s\nand is\n%s", before, after)
	}
}

func TestReplacingLeavesNoGap(t *testing.T) {
	w := newWorld(t, 22)
	w.serve()
	w.install(defaultPolicy(t))
	conn := openConnection(w)
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		for !stop.Load() {
			if _, err := w.outside.SendTCP(machineAddress+":10250", 1); err != nil {
				done <- fmt.Errorf("what is always allowed was not answered: %w", err)
				return
			}
			if _, err := w.outside.SendUDP(machineAddress+":4789", 1); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	leaks := make(chan bool, 1)
	go func() {
		leaked := false
		for !stop.Load() {
			leaked = leaked || !w.outside.BlockedTCP(machineAddress+":2379")
		}
		leaks <- leaked
	}()
	other := defaultPolicy(t)
	other.Group.Rules = other.Group.Rules[1:] // without the API
	for i := range 10 {
		w.install([]securitygroup.Policy{other, defaultPolicy(t)}[i%2])
	}
	w.install(other)
	stop.Store(true)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if <-leaks {
		t.Error("what is never allowed was answered while rules were replaced")
	}
	// Whoever talks may finish; who comes anew may not begin.
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Errorf("a connection that existed ended: %v", err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 100)); err != nil {
		t.Errorf("a connection that existed ended: %v", err)
	}
	w.opens(w.outside, "tcp", false, 6443)
}

// openConnection connects to the API's port.
func openConnection(w *world) *net.TCPConn {
	w.Helper()
	var conn net.Conn
	w.outside.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", machineAddress+":6443", 5*time.Second)
		return err
	})
	w.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Read(make([]byte, 100)); err != nil {
		w.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

func TestSurvivesReboot(t *testing.T) {
	w := newWorld(t, 22)
	w.serve()
	w.install(defaultPolicy(t))
	// A boot: the kernel has forgotten all rules, /run is empty, and the distribution's own firewall is loaded first.
	w.host.Do("nft flush ruleset; rm -rf /run/plasmacloud*; systemctl boot")
	w.isProtected()
	if problem := w.check(); problem != "" {
		t.Errorf("after a boot: %s", problem)
	}
}

func TestCheckAndMend(t *testing.T) {
	w := newWorld(t, 22)
	if problem := w.check(); problem != "it is not installed" {
		t.Errorf("before: %q", problem)
	}
	policy := defaultPolicy(t)
	w.install(policy)
	handle := "$(nft --handle list chain inet plasmacloud-sg machine | sed -n 's/.*drop # handle //p')"
	for damage, says := range map[string]string{
		"nft delete table inet plasmacloud-sg":                                         "it is not loaded",
		"nft flush table inet plasmacloud-sg":                                          "what is loaded was changed by hand",
		"nft insert rule inet plasmacloud-sg machine accept":                           "what is loaded was changed by hand",
		"nft delete rule inet plasmacloud-sg machine handle " + handle:                 "what is loaded was changed by hand",
		"systemctl disable plasmacloud-security-group.service":                         "it would not be loaded at the next boot",
		"rm /etc/plasmacloud/security-group.nft":                                       "it is not installed",
		"sed -i s/6443/6444/ /etc/plasmacloud/security-group.nft":                      "it has other rules than it should",
		"nft flush ruleset; rm /etc/systemd/system/plasmacloud-security-group.service": "it is not loaded",
	} {
		w.host.Do(damage)
		problem, err := securitygroup.Check(t.Context(), w.client, &policy)
		if err != nil || problem != says {
			t.Errorf("%s: %q, %v", damage, problem, err)
		}
		w.install(policy)
		if problem, err := securitygroup.Check(t.Context(), w.client, &policy); err != nil || problem != "" {
			t.Errorf("mended after %s: %q, %v", damage, problem, err)
		}
	}
	policy.Group.Rules = nil
	if problem, err := securitygroup.Check(t.Context(), w.client, &policy); err != nil || problem != "it has other rules than it should" {
		t.Errorf("with a changed group: %q, %v", problem, err)
	}
}

func TestInstallIsRepeatable(t *testing.T) {
	w := newWorld(t, 22)
	w.install(defaultPolicy(t))
	first := w.host.Do("nft --stateless --handle list ruleset; stat -c %Y.%i /etc/plasmacloud/* /etc/systemd/system/plasmacloud*")
	w.install(defaultPolicy(t))
	if again := w.host.Do("nft --stateless --handle list ruleset; stat -c %Y.%i /etc/plasmacloud/* /etc/systemd/system/plasmacloud*"); again != first {
		t.Errorf("it was\n%s\nand became\n%s", first, again)
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	w := newWorld(t, 22)
	w.serve()
	files := "find /etc /run /usr/lib/systemd -newer /run/before | sort"
	w.host.Do("touch /run/before; sleep 0.01")
	if err := securitygroup.Remove(t.Context(), w.client); err != nil {
		t.Fatalf("where there is nothing: %v", err)
	}
	w.install(defaultPolicy(t))
	for range 2 {
		if err := securitygroup.Remove(t.Context(), w.client); err != nil {
			t.Fatal(err)
		}
	}
	if left := w.host.Do("nft list ruleset"); left != "" {
		t.Errorf("rules are left:\n%s", left)
	}
	for _, left := range strings.Fields(w.host.Do(files)) {
		if strings.Contains(left, "plasmacloud") {
			t.Errorf("%s is left", left)
		}
	}
	w.opens(w.outside, "tcp", true, closedTCP...)
}

func TestNobodyIsLockedOut(t *testing.T) {
	w := newWorld(t, 2022) // behind something that calls it 22
	err := securitygroup.Install(t.Context(), w.client, defaultPolicy(t))
	if !errors.Is(err, securitygroup.ErrLockedOut) || !strings.Contains(err.Error(), machineAddress) {
		t.Errorf("the error is %v", err)
	}
	if left := w.host.Do("nft list ruleset; ls /etc/plasmacloud* 2>&1 || :"); strings.Contains(left, "drop") {
		t.Errorf("the group is in force:\n%s", left)
	}
	if err := w.client.LogIn(t.Context(), "test"); err != nil {
		t.Errorf("nobody can log in: %v", err)
	}
	policy := defaultPolicy(t)
	policy.SSHPorts = []int{2022}
	w.install(policy)
}

func TestHostWithoutNFT(t *testing.T) {
	w := newWorld(t, 22)
	w.host.Do("rm -f /usr/sbin/nft /sbin/nft")
	err := securitygroup.Install(t.Context(), w.client, defaultPolicy(t))
	if err == nil || !strings.Contains(err.Error(), "nftables is missing; install the package nftables") {
		t.Errorf("the error is %v", err)
	}
	if err := securitygroup.Remove(t.Context(), w.client); err != nil {
		t.Error(err)
	}
}

func TestWhatTheKernelRefusesChangesNothing(t *testing.T) {
	w := newWorld(t, 22)
	w.install(defaultPolicy(t))
	before := w.host.Do("nft --stateless list ruleset; cat /etc/plasmacloud/security-group.nft")
	w.host.Do("printf '#!/bin/sh\\ncase $1 in --check) echo no such thing >&2; exit 1 ;; esac\\nexec /usr/sbin/nft \"$@\"\\n' >/usr/local/sbin/nft; chmod 755 /usr/local/sbin/nft")
	policy := defaultPolicy(t)
	policy.Group.Rules = policy.Group.Rules[1:]
	if err := securitygroup.Install(t.Context(), w.client, policy); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("the error is %v", err)
	}
	if after := w.host.Do("nft --stateless list ruleset; cat /etc/plasmacloud/security-group.nft"); after != before {
		t.Errorf("it was\n%s\nand became\n%s", before, after)
	}
}
