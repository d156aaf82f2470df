package nodegroup_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	machinecontroller "plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/fake"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// bench is where machines are made nodes: what is done with each, in order.
type bench struct {
	mu     sync.Mutex
	world  *world
	done   []string
	broken error
}

func (b *bench) Join(ctx context.Context, job machinecontroller.Job, progress func(string)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	progress("it is on the bench")
	if b.broken != nil {
		return b.broken
	}
	if job.Token == "" {
		b.done = append(b.done, "prepare")
		return nil
	}
	b.done = append(b.done, "join")
	b.world.setAbsent(false)
	b.world.joinNode(ctx, machine.Machine{Key: machine.Key{Name: job.Host.Name}, Address: job.Host.Address})
	return nil
}

func (b *bench) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = err
}

// reachable is a driver whose machines can be worked on.
type reachable struct{ machine.Driver }

func (reachable) Reach(context.Context, machine.Key) (*remote.Client, error) {
	return remote.NewPool(remote.Config{}).Client(remote.Host{}), nil
}

// workshop is a world whose machines do not boot as nodes.
func workshop(t *testing.T) (*world, *bench) {
	t.Helper()
	b := &bench{}
	setup := machinecontroller.NewBackground(b, clock.RealClock{}, machinecontroller.BackgroundConfig{FirstWait: 200 * time.Millisecond})
	t.Cleanup(setup.Close)
	w := newWorld(t, fake.Config{}, func(w *world) {
		w.setup, w.absent = setup, true
		w.wrap = func(d machine.Driver) machine.Driver { return reachable{d} }
	})
	b.world = w
	return w, b
}

func TestWorkersArePreparedBeforeThereIsAClusterToJoin(t *testing.T) {
	w, b := workshop(t)
	g := w.group(1)
	w.setCluster(func(c *v1alpha1.Cluster) { c.Status.Endpoint, c.Status.Version = tenants.URL(), "v1.36.3" })
	did := func(what string) func() bool {
		return func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return strings.Join(b.done, " ") == what
		}
	}
	w.eventually("the machine is prepared", did("prepare"))
	for name := range w.machines() {
		w.eventually("its address is told", func() bool { return w.machines()[name].Status.Address != "" })
		if m := w.machines()[name]; machinecontroller.Joined(&m) {
			t.Errorf("%+v", m.Status)
		}
	}
	w.offerJoin()
	w.offerAPI()
	w.eventually("it joins", did("prepare join"))
	w.settled(g)
	names := w.names()
	if err := w.kube.Delete(t.Context(), w.cluster, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	w.eventually("the machine is gone", func() bool { return len(w.machines()) == 0 })
	left, err := w.api.CoreV1().Secrets(v1alpha1.InfrastructureNamespace(w.cluster)).List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LabelMachine})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("left of %v: %v, %v", names, left.Items, err)
	}
}

func TestWhatIsWrongWithAHostIsTold(t *testing.T) {
	w, b := workshop(t)
	b.set(errors.New("host 10.0.0.5: prerequisites: disk full; make room for 300 MiB"))
	w.offerJoin()
	w.offerAPI()
	g := w.group(1)
	w.eventually("the group says so", func() bool {
		if err := w.kube.Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil {
			return false
		}
		stalled := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionStalled)
		return stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == machinecontroller.ReasonSetupFailed && strings.Contains(stalled.Message, "make room for 300 MiB")
	})
	b.set(nil)
	w.settled(g)
	if c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionStalled); c.Status != metav1.ConditionFalse {
		t.Errorf("%+v", c)
	}
}
