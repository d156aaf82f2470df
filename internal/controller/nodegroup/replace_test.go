package nodegroup_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	machinecontroller "plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/nodegroup"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/fake"
)

// counts are the machines at one moment: those that are not being deleted, and of these, those that are ready and those
// that never were.
type counts struct{ live, ready, unmade int }

// observe calls check at every change of a machine, until the returned function is called.
func (w *world) observe(check func(counts) error) (done func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var list v1alpha1.MachineList
	if err := w.kube.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	machines := map[string]v1alpha1.Machine{}
	for _, m := range list.Items {
		machines[m.Name] = m
	}
	watcher, err := w.kube.Watch(ctx, &v1alpha1.MachineList{}, client.InNamespace(w.namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		w.t.Fatal(err)
	}
	var observing sync.WaitGroup
	observing.Go(func() {
		events := 0
		for e := range watcher.ResultChan() {
			m, ok := e.Object.(*v1alpha1.Machine)
			if !ok {
				continue
			}
			events++
			machines[m.Name] = *m
			if e.Type == watch.Deleted {
				delete(machines, m.Name)
			}
			if err := check(count(machines)); err != nil {
				w.t.Errorf("after event %d, %s of %s: %v", events, e.Type, m.Name, err)
			}
		}
		if events == 0 {
			w.t.Error("nothing was observed")
		}
	})
	return func() {
		cancel()
		watcher.Stop()
		observing.Wait()
	}
}

func count(machines map[string]v1alpha1.Machine) (c counts) {
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		c.live++
		if meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
			c.ready++
		}
		if !machinecontroller.Joined(&m) {
			c.unmade++
		}
	}
	return c
}

// within is a check that there are never more, nor fewer that are ready.
func within(most, least int) func(counts) error {
	return func(c counts) error {
		if c.live > most || c.ready < least {
			return fmt.Errorf("%d machines of at most %d, %d ready of at least %d", c.live, most, c.ready, least)
		}
		return nil
	}
}

func TestScaling(t *testing.T) {
	t.Parallel()
	w := up(t, fake.Config{BootTime: 20 * time.Millisecond, DeleteTime: 20 * time.Millisecond})
	g := w.group(1)
	w.settled(g)
	oldest := w.names()[0]
	// Creation times are in whole seconds: let the next ones be younger.
	w.eventually("a second has passed", func() bool { return time.Since(w.machines()[oldest].CreationTimestamp.Time) > 1500*time.Millisecond })
	w.edit(g, func(spec *v1alpha1.NodeGroupSpec) { spec.Replicas = 4 })
	w.settled(g)
	before := w.names()
	if len(before) != 4 {
		t.Fatal(before)
	}

	sick := before[slices.IndexFunc(before, func(name string) bool { return name != oldest })]
	w.setNode(corev1.ConditionFalse, sick)
	w.eventually("the sick one is known", func() bool { return w.machines()[sick].Status.Phase == v1alpha1.PhaseFailed })
	w.edit(g, func(spec *v1alpha1.NodeGroupSpec) { spec.Replicas = 3 })
	w.settled(g)
	if left := w.machines(); left[sick].Name != "" || left[oldest].Name == "" {
		t.Errorf("the sick %s should have gone: %v", sick, w.names())
	}
	w.edit(g, func(spec *v1alpha1.NodeGroupSpec) { spec.Replicas = 2 })
	w.settled(g)
	left := w.names()
	if slices.Contains(left, oldest) || len(left) != 2 {
		t.Errorf("the oldest, %s, should have gone: %v", oldest, left)
	}
	for _, name := range left {
		if !slices.Contains(before, name) {
			t.Errorf("%s is new", name)
		}
	}
	if nodes := w.nodes(before); !slices.Equal(nodes, left) {
		t.Errorf("nodes %v, machines %v", nodes, left)
	}
}

// nodes are those of the given names that are there.
func (w *world) nodes(names []string) []string {
	w.t.Helper()
	list, err := w.tenant.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var there []string
	for i := range list.Items {
		if slices.Contains(names, list.Items[i].Name) {
			there = append(there, list.Items[i].Name)
		}
	}
	slices.Sort(there)
	return there
}

func TestRollingReplacementKeepsItsLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		surge, unavailable int32
		most, least        int
	}{
		"one more":           {1, 0, 5, 4},
		"one fewer":          {0, 1, 4, 3},
		"two more one fewer": {2, 1, 6, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := up(t, fake.Config{BootTime: 100 * time.Millisecond, DeleteTime: 100 * time.Millisecond})
			g := w.group(4, func(template *v1alpha1.NodeGroupTemplate) {
				template.RollingUpdate = v1alpha1.RollingUpdate{MaxSurge: ptr.To(intstr.FromInt32(test.surge)), MaxUnavailable: ptr.To(intstr.FromInt32(test.unavailable))}
			})
			w.settled(g)
			before := w.names()
			done := w.observe(within(test.most, test.least))
			w.edit(g, func(spec *v1alpha1.NodeGroupSpec) { spec.Template.InstanceType = "u1.large" })
			w.settled(g)
			w.allNew(before, 4)
			w.setCluster(func(c *v1alpha1.Cluster) { c.Status.Version = "v1.36.4" })
			w.eventually("the new version is everywhere", func() bool {
				machines := slices.Collect(maps.Values(w.machines()))
				return len(machines) == 4 && !slices.ContainsFunc(machines, func(m v1alpha1.Machine) bool { return m.Spec.Version != "v1.36.4" })
			})
			w.settled(g)
			done()
		})
	}
}

// allNew asserts that there are so many machines, and none of those before.
func (w *world) allNew(before []string, want int) {
	w.t.Helper()
	now := w.names()
	if len(now) != want {
		w.t.Errorf("%d machines: %v", len(now), now)
	}
	for _, name := range now {
		if slices.Contains(before, name) {
			w.t.Errorf("%s is still there", name)
		}
	}
}

func TestAControllerThatIsStartedAnewGoesOnWhereTheOtherEnded(t *testing.T) {
	t.Parallel()
	w := up(t, fake.Config{BootTime: 300 * time.Millisecond, DeleteTime: 100 * time.Millisecond})
	g := w.group(3)
	w.settled(g)
	before := w.machines()
	w.stop()
	w.start()
	unrelated := &v1alpha1.NodeGroup{ObjectMeta: w.named("dev-other"), Spec: v1alpha1.NodeGroupSpec{Cluster: "dev", Group: "other", Replicas: 1, Template: v1alpha1.NodeGroupTemplate{MaxReplicas: 1}}}
	w.create(unrelated) // when this one is ready, the others have been looked at
	w.settled(unrelated)
	after := w.machines()
	for name, m := range before {
		if after[name].ResourceVersion != m.ResourceVersion {
			t.Errorf("%s was changed: %+v", name, after[name].Status)
		}
	}
	if err := w.kube.Delete(t.Context(), unrelated); err != nil {
		t.Fatal(err)
	}
	w.gone(unrelated)

	done := w.observe(within(4, 3))
	w.edit(g, func(spec *v1alpha1.NodeGroupSpec) { spec.Template.InstanceType = "u1.large" })
	for range 6 { // again and again, in the middle of it
		time.Sleep(400 * time.Millisecond)
		w.stop()
		w.start()
	}
	w.settled(g)
	done()
	w.allNew(slices.Collect(maps.Keys(before)), 3)
	if machines, err := w.driver.List(t.Context(), machine.Filter{}); err != nil || len(machines) != 3 {
		t.Errorf("%d machines at the provider: %v", len(machines), err)
	}
}

func TestALostMachineIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	w := up(t, fake.Config{BootTime: 20 * time.Millisecond}, func(w *world) { w.limits = nodegroup.DefaultLimits() })
	g := w.group(2)
	w.settled(g)
	before := w.names()
	lost := before[0]
	if err := w.driver.Delete(t.Context(), w.key(lost)); err != nil {
		t.Fatal(err)
	}
	w.setNode(corev1.ConditionUnknown, lost) // as the cluster notices after a while
	w.eventually("it is replaced", func() bool {
		machines := w.machines()
		return machines[lost].Name == "" && len(machines) == 2
	})
	w.settled(g)
	if !slices.Contains(w.names(), before[1]) || len(w.nodes(before)) != 1 {
		t.Errorf("machines %v, nodes %v", w.names(), w.nodes(before))
	}
}

func (w *world) key(name string) machine.Key {
	return machine.Key{Namespace: v1alpha1.InfrastructureNamespace(w.cluster), Cluster: w.cluster.Name, Name: name}
}

func TestAMassFailureIsHeldBack(t *testing.T) {
	t.Parallel()
	w := up(t, fake.Config{BootTime: 20 * time.Millisecond})
	g := w.group(5)
	w.settled(g)
	before := w.names()
	done := w.observe(func(c counts) error {
		if c.live > 5 || c.unmade > 2 {
			return fmt.Errorf("%d machines, %d of them being made", c.live, c.unmade)
		}
		return nil
	})
	w.setAbsent(true)
	w.setNode(corev1.ConditionUnknown, before...)
	w.eventually("replacement is held back", func() bool {
		ready := w.condition(g, func() []metav1.Condition { return g.Status.Conditions })
		return ready.Reason == nodegroup.ReasonHeldBack && strings.Contains(ready.Message, "at most 2 of 5")
	})
	time.Sleep(2 * time.Second)
	if old := len(w.nodes(before)); old != 3 || g.Status.Phase != v1alpha1.PhaseRepairing {
		t.Errorf("%d old nodes are left, %s", old, g.Status.Phase)
	}
	w.setAbsent(false)
	w.settled(g)
	done()
	w.allNew(before, 5)
}

func TestANodeThatRecoversInTimeStays(t *testing.T) {
	t.Parallel()
	w := up(t, fake.Config{}, func(w *world) { w.limits.NotReady = 4 * time.Second })
	g := w.group(1)
	w.settled(g)
	before := w.names()
	w.setNode(corev1.ConditionFalse, before...)
	w.eventually("it is known", func() bool { return w.machines()[before[0]].Status.Phase == v1alpha1.PhaseFailed })
	w.setNode(corev1.ConditionTrue, before...)
	w.settled(g)
	time.Sleep(5 * time.Second)
	if now := w.names(); !slices.Equal(now, before) {
		t.Errorf("%v became %v", before, now)
	}
}
