package fake

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/drivertest"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, drivertest.Implementation{
		New: func(*testing.T) machine.Driver {
			return New(clock.RealClock{}, Config{BootTime: 30 * time.Millisecond, DeleteTime: 30 * time.Millisecond})
		},
		Namespace: "project-a", Patience: 30 * time.Second, Interval: 5 * time.Millisecond,
	})
}

func newSpec(name string) machine.Spec {
	one := resource.MustParse("1Gi")
	return machine.Spec{Key: machine.Key{Namespace: "project-a", Cluster: "dev", Name: name}, CPU: one, Memory: one, Disk: one}
}

func TestMachinesTakeTheirTimeAndFailWhenTold(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Now())
	d := New(clk, Config{BootTime: time.Minute, DeleteTime: time.Minute})
	good, bad := newSpec("good"), newSpec("bad")
	d.FailNext(bad.Key, "it caught fire")
	states := func(want ...machine.State) {
		t.Helper()
		machines, err := d.List(t.Context(), machine.Filter{})
		if err != nil || len(machines) != len(want) {
			t.Fatal(machines, err)
		}
		for i := range want {
			if machines[i].State != want[i] {
				t.Errorf("%+v is not %s", machines[i], want[i])
			}
		}
	}
	for _, spec := range []machine.Spec{good, bad} {
		if _, err := d.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	states(machine.StatePending, machine.StatePending)
	clk.SetTime(clk.Now().Add(time.Minute))
	states(machine.StateFailed, machine.StateRunning)
	if err := d.Delete(t.Context(), bad.Key); err != nil {
		t.Fatal(err)
	}
	states(machine.StateDeleting, machine.StateRunning)
	clk.SetTime(clk.Now().Add(time.Minute))
	states(machine.StateRunning)
}

func TestCapacityEnds(t *testing.T) {
	d := New(clock.RealClock{}, Config{Capacity: 1})
	if _, err := d.Create(t.Context(), newSpec("one")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(t.Context(), newSpec("two")); !errors.Is(err, machine.ErrNoCapacity) {
		t.Error(err)
	}
	if _, err := d.Create(t.Context(), newSpec("one")); err != nil {
		t.Error(err)
	}
}
