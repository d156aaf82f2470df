package nodegroup_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/fake"
)

// notifying is a driver that tells of changes, also of those that it makes itself.
type notifying struct {
	machine.Driver
	created atomic.Int32
	changes chan machine.Key
}

func (n *notifying) Notify(ctx context.Context, changed func(machine.Key)) error {
	for {
		select {
		case key := <-n.changes:
			changed(key)
		case <-ctx.Done():
			return nil
		}
	}
}

func (n *notifying) Create(ctx context.Context, spec machine.Spec) (*machine.Machine, error) {
	n.created.Add(1)
	n.changes <- spec.Key
	made, err := n.Driver.Create(ctx, spec)
	time.AfterFunc(50*time.Millisecond, func() { n.changes <- spec.Key })
	return made, err
}

func withNotifying(driver *notifying) option {
	return func(w *world) {
		driver.changes = make(chan machine.Key, 1000)
		w.wrap = func(wrapped machine.Driver) machine.Driver {
			driver.Driver = wrapped
			return driver
		}
	}
}

func TestNoRoomIsNotAskedForAllTheTime(t *testing.T) {
	t.Parallel()
	driver := &notifying{}
	w := up(t, fake.Config{Capacity: 1}, withNotifying(driver))
	g := w.group(2)
	w.eventually("there is no room", func() bool {
		return strings.Contains(w.condition(g, func() []metav1.Condition { return g.Status.Conditions }).Message, "no capacity")
	})
	// How often it was asked until then depends on how long that took; from now on it is asked now and then.
	before := driver.created.Load()
	time.Sleep(3 * time.Second)
	if n := driver.created.Load() - before; n > 2 {
		t.Errorf("asked %d times more for one machine", n)
	}
}

func TestADriverThatTellsIsHeard(t *testing.T) {
	t.Parallel()
	driver := &notifying{}
	w := up(t, fake.Config{}, withNotifying(driver))
	g := w.group(1)
	w.settled(g)
	lost := w.names()[0]
	if err := w.driver.Delete(t.Context(), w.key(lost)); err != nil {
		t.Fatal(err)
	}
	driver.changes <- w.key(lost)
	w.eventually("it is replaced", func() bool { return w.machines()[lost].Name == "" && len(w.machines()) == 1 })
	w.settled(g)
	if ready := w.machines()[w.names()[0]].Status; ready.Phase != v1alpha1.PhaseRunning || ready.NodeName == "" {
		t.Error(ready)
	}
	if left := w.nodes([]string{lost}); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
