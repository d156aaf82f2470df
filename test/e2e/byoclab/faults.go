package byoclab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/terraform/translate"
	"plasmacloud.io/plasmacloud/test/e2e/lab"
	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// Drift changes something of the cluster behind the platform's back: a plan tells what, and a repair puts it right.
func (l *Life) Drift(t *testing.T, spoil func() (changed int)) {
	t.Helper()
	if spoil() == 0 {
		t.Fatal("there is nothing to spoil")
	}
	if plan := l.Cloud(t, "k8s", "plan", "shop"); !strings.Contains(plan, "0 created, 1 changed, 0 replaced, 0 destroyed") {
		t.Errorf("what was spoilt is planned as\n%s", plan)
	}
	l.made(t, "k8s", "repair", "shop")
	if plan := l.Cloud(t, "k8s", "plan", "shop"); !strings.Contains(plan, "nothing to do") {
		t.Errorf("once it is repaired, it is planned as\n%s", plan)
	}
}

// Killed makes a second network in a cloud that is busy, and kills the deployers with -9: the first once one of a kind was
// made, and the next one while it looks at what is there. What they left behind is taken over, and nothing is made twice.
func (l *Life) Killed(t *testing.T, first string, made map[string]int, faults ...ledger.Fault) {
	t.Helper()
	before, had := l.Stub.Created(), l.Stub.Inventory()
	for _, fault := range faults {
		l.Stub.Spoil(fault)
	}
	l.Cloud(t, "vpc", "create", "--name", "second", "--account", "prod", "--cidr", "10.1.0.0/16")
	stack := l.stackOf(t, "second")
	lab.Eventually(t, 2*time.Minute, "something is made", func() error {
		if made := l.Stub.Created()[first]; made == before[first] {
			return fmt.Errorf("%d %s", made, first)
		}
		return nil
	})
	killed := killDeployer(t, stack)
	lab.Eventually(t, 2*time.Minute, "another one goes on", func() error {
		if at := deployersOf(t, stack); len(at) != 1 || at[0] == killed { // which takes a moment to die
			return fmt.Errorf("%v work on it", at)
		}
		return nil
	})
	killDeployer(t, stack)
	lab.Eventually(t, 4*time.Minute, "it is made all the same", func() error {
		phase, err := l.TryKubectl("get", "network", "second", "-n", Team, "-o", "jsonpath={.status.phase}")
		if err == nil && phase != "RUNNING" {
			err = fmt.Errorf("it is %s", phase)
		}
		return err
	})
	after := l.Stub.Created()
	for kind, count := range made {
		if after[kind] != before[kind]+count {
			t.Errorf("%d %s were made, and before %d", after[kind], kind, before[kind])
		}
	}
	l.second = map[string]int{}
	for kind, count := range l.Stub.Inventory() {
		if count > had[kind] {
			l.second[kind] = count - had[kind]
		}
	}
}

// stackOf is the stack of a network. Its name is like no other's: scenarios run side by side.
func (l *Life) stackOf(t *testing.T, network string) string {
	t.Helper()
	return translate.StackName("default", "network", network, l.Kubectl(t, "get", "network", network, "-n", Team, "-o", "jsonpath={.metadata.uid}"))
}

// killDeployer ends the deployer of a stack with -9, and with it all that runs in its container.
func killDeployer(t *testing.T, stack string) (pid int) {
	t.Helper()
	at := deployersOf(t, stack)
	if len(at) != 1 {
		t.Fatalf("%d programs work on %s", len(at), stack)
	}
	must(t, syscall.Kill(at[0], syscall.SIGKILL))
	return at[0]
}

// deployersOf are the processes that work on a stack.
func deployersOf(t *testing.T, stack string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(content), "\x00"), "--stack="+stack) {
			continue // it has ended, or is another one
		}
		pid, err := strconv.Atoi(strings.Split(file, "/")[2])
		must(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// Revoked takes the credentials away: the account says so, and the second network, which nobody can remove any more, is
// forgotten, with a list of what is left of it. Then they are good again.
func (l *Life) Revoked(t *testing.T, remains string) {
	t.Helper()
	l.Stub.Revoke(true)
	if said := refused(t, l.Platform, "account", "verify", "prod"); !strings.Contains(said, "does not accept the credentials") || !strings.Contains(said, "Revoked") {
		t.Errorf("verify says\n%s", said)
	}
	l.made(t, "vpc", "delete", "second", "--forget", "--yes")
	list := l.Kubectl(t, "get", "tasks", "-n", Team, "-o", `jsonpath={range .items[?(@.spec.resource.name=="second")]}{.spec.operation}: {.status.outputs.remains}{end}`)
	if !strings.Contains(list, "Delete: ") || !strings.Contains(list, remains) {
		t.Errorf("of what is left the tasks say\n%s", list)
	}
	if events := l.Kubectl(t, "get", "events.events.k8s.io", "-n", Team, "-o", "json"); !strings.Contains(events, "LeftInCloud") {
		t.Error("no event tells what is left")
	}
	l.Stub.Revoke(false)
	if shown := l.Cloud(t, "account", "verify", "prod"); !strings.Contains(shown, "RUNNING") {
		t.Errorf("with good credentials again, verify says\n%s", shown)
	}
}
