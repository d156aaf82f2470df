package machines

import (
	"slices"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/balancer"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/task"
)

var repaired = slices.Concat(created[:2], []string{"mend-hosts"}, created[2:])

// A lost machine of three leaves, and another one joins in its place.
func TestALostMachineIsReplaced(t *testing.T) {
	w := newWorld(t, 3)
	w.run(v1alpha1.OperationCreate, created...)
	lost := w.members()[0].Name // the one that the control plane began with
	w.lose(lost)
	w.hosts.forget()
	w.run(v1alpha1.OperationRepair, repaired...)
	members := w.members()
	if len(members) != 3 || isMember(members, lost) {
		t.Fatalf("members %v", members)
	}
	done := strings.Join(w.hosts.forget(), "\n")
	for _, want := range []string{"remove " + lost + " by ", "join dev-control-plane-", "mend dev-control-plane-"} {
		if !strings.Contains(done, want) {
			t.Errorf("no %q in\n%s", want, done)
		}
	}
	for _, not := range []string{"look " + lost, "init "} {
		if strings.Contains(done, not) {
			t.Errorf("%q in\n%s", not, done)
		}
	}
	if slices.Contains(names(w.machines()), lost) {
		t.Error("the lost machine is still there")
	}
}

// What could lose the majority is refused, with what a person can do.
func TestLosingQuorumIsRefused(t *testing.T) {
	w := newWorld(t, 3)
	w.run(v1alpha1.OperationCreate, created...)
	lost := w.members()[1].Name
	w.lose(lost)
	w.hosts.failing["remove"] = hostsetup.ErrQuorum
	err := w.try(t.Context(), v1alpha1.OperationRepair, "control-plane-machines")
	if !task.IsPermanent(err) || !strings.Contains(err.Error(), "quorum") || !strings.Contains(err.Error(), "backup") {
		t.Errorf("%v", err)
	}
	if !isMember(w.members(), lost) || !slices.Contains(names(w.machines()), lost) {
		t.Error("it was removed all the same")
	}
}

// Where most are lost, one goes on alone when somebody says so, and others join it.
func TestOneOfThreeGoesOnByForce(t *testing.T) {
	w := newWorld(t, 3)
	w.run(v1alpha1.OperationCreate, created...)
	members := w.members()
	w.lose(members[0].Name)
	w.lose(members[1].Name)
	w.force = true
	w.hosts.forget()
	w.run(v1alpha1.OperationRepair, repaired...)
	if now := w.members(); len(now) != 3 || !isMember(now, members[2].Name) || isMember(now, members[0].Name) || isMember(now, members[1].Name) {
		t.Errorf("members %v", now)
	}
	done := w.hosts.forget()
	if !slices.Contains(done, "survive "+members[2].Name) || slices.ContainsFunc(done, func(text string) bool { return strings.HasPrefix(text, "init ") }) {
		t.Errorf("%v", done)
	}
}

// The only machine of a control plane holds everything: nobody begins anew without being told to.
func TestTheOnlyMachineIsNotReplacedWithoutForce(t *testing.T) {
	w := newWorld(t, 1)
	w.run(v1alpha1.OperationCreate, created...)
	lost := w.members()[0].Name
	w.lose(lost)
	err := w.try(t.Context(), v1alpha1.OperationRepair, "control-plane-machines")
	if !task.IsPermanent(err) || !strings.Contains(err.Error(), "--force") || !strings.Contains(err.Error(), lost) {
		t.Fatalf("%v", err)
	}
	w.force = true
	w.hosts.forget()
	w.run(v1alpha1.OperationRepair, created...)
	members := w.members()
	if len(members) != 1 || members[0].Name == lost || !slices.Contains(w.hosts.forget(), "init "+members[0].Name) {
		t.Errorf("members %v", members)
	}
	w.looksRight()
}

// A machine that is lost before the control plane begins on it is nothing to worry about.
func TestTheFirstMachineIsLostBeforeItBegins(t *testing.T) {
	w := newWorld(t, 1)
	w.run(v1alpha1.OperationCreate, created[:4]...)
	lost := w.members()[0].Name
	w.lose(lost)
	w.run(v1alpha1.OperationCreate, created...)
	if members := w.members(); len(members) != 1 || members[0].Name == lost {
		t.Errorf("members %v", members)
	}
	w.looksRight()
}

// A control plane that is to be smaller loses its newest machines, one after the other.
func TestAControlPlaneShrinks(t *testing.T) {
	w := newWorld(t, 3)
	w.run(v1alpha1.OperationCreate, created...)
	w.cluster.Spec.ControlPlane.Replicas = 1
	w.hosts.forget()
	w.run(v1alpha1.OperationUpdate, created...)
	if members := w.members(); len(members) != 1 || len(w.machines()) != 1 {
		t.Errorf("members %v", members)
	}
	removed := slices.DeleteFunc(w.hosts.forget(), func(text string) bool { return !strings.HasPrefix(text, "remove ") })
	if len(removed) != 2 {
		t.Errorf("%v", removed)
	}
}

func TestMembersAreEnteredOnce(t *testing.T) {
	members := []balancer.Server{{Name: "a", Address: "1:1"}, {Name: "b", Address: "2:2"}}
	if left := without(slices.Clone(members), "a"); len(left) != 1 || isMember(left, "a") || !isMember(left, "b") {
		t.Error(left)
	}
}
