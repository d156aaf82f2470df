// Package drivertest is the conformance suite of machine drivers: what machine.Driver promises, as tests. Every driver
// calls Run from a test of its own.
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"plasmacloud.io/plasmacloud/internal/machine"
)

// Implementation is what the suite tests.
type Implementation struct {
	// New returns a driver for one test. The suite deletes the machines that it makes; others it leaves alone.
	New func(t *testing.T) machine.Driver
	// Namespace that machines can be made in.
	Namespace string
	// Patience is how long a machine may take to run, or to be gone. Interval is how often to look.
	Patience, Interval time.Duration
}

// Run tests a driver.
func Run(t *testing.T, implementation Implementation) {
	for name, test := range map[string]func(*suite){
		"a machine runs and has an address":                 runs,
		"creating again returns the same machine":           createAgain,
		"many creations at once make one machine":           createAtOnce,
		"another description of the same key is a conflict": conflict,
		"what is not there is not found":                    notFound,
		"names are a cluster's own":                         namesApart,
		"a list is complete, ordered and filtered":          list,
		"a deleted machine goes":                            deletion,
		"deleting what is not there is no error":            deleteNothing,
		"a machine that is being made can be deleted":       deletePending,
		"a key can be used again":                           useAgain,
		"a description that makes no sense is refused":      refusal,
		"an ended context ends a call":                      endedContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&suite{T: t, Implementation: implementation, driver: implementation.New(t)})
		})
	}
}

// suite is one test.
type suite struct {
	*testing.T
	Implementation
	driver machine.Driver
}

// spec describes a small machine, which is deleted when the test ends.
func (s *suite) spec(cluster, name string) machine.Spec {
	s.Helper()
	spec := machine.Spec{
		Key: machine.Key{Namespace: s.Namespace, Cluster: cluster, Name: name},
		CPU: resource.MustParse("500m"), Memory: resource.MustParse("512Mi"), Disk: resource.MustParse("5Gi"),
		Labels: map[string]string{"purpose": "conformance"},
	}
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.Patience)
		defer cancel()
		if err := s.driver.Delete(ctx, spec.Key); err != nil {
			s.Errorf("clean up: %v", err)
		}
	})
	return spec
}

func (s *suite) create(spec machine.Spec) *machine.Machine {
	s.Helper()
	made, err := s.driver.Create(s.Context(), spec)
	if err != nil {
		s.Fatal(err)
	}
	if made.Key != spec.Key || made.ID == "" || made.State == "" {
		s.Errorf("made %+v", made)
	}
	return made
}

// await looks until a machine is as it should be; nil is one that is gone.
func (s *suite) await(key machine.Key, what string, as func(*machine.Machine) bool) *machine.Machine {
	s.Helper()
	deadline := time.Now().Add(s.Patience)
	for {
		m, err := s.driver.Get(s.Context(), key)
		if err != nil && !errors.Is(err, machine.ErrNotFound) {
			s.Fatal(err)
		}
		if err != nil {
			m = nil
		}
		if as(m) {
			return m
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s is not %s but %+v", key, what, m)
		}
		<-time.After(s.Interval)
	}
}

func (s *suite) awaitRunning(key machine.Key) *machine.Machine {
	s.Helper()
	return s.await(key, "running", func(m *machine.Machine) bool { return m != nil && m.State == machine.StateRunning })
}

func (s *suite) awaitGone(key machine.Key) {
	s.Helper()
	s.await(key, "gone", func(m *machine.Machine) bool { return m == nil })
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func runs(s *suite) {
	made := s.create(s.spec("runs", "m0"))
	running := s.awaitRunning(made.Key)
	if running.Address == "" || running.ID != made.ID {
		s.Errorf("%+v, made as %+v", running, made)
	}
}

func createAgain(s *suite) {
	spec := s.spec("again", "m0")
	made := s.create(spec)
	if again := s.create(spec); again.ID != made.ID {
		s.Errorf("%s and %s", made.ID, again.ID)
	}
	running := s.awaitRunning(spec.Key)
	if again := s.create(spec); again.ID != made.ID || again.State != machine.StateRunning || again.Address != running.Address {
		s.Errorf("%+v, running as %+v", again, running)
	}
}

func createAtOnce(s *suite) {
	spec := s.spec("at-once", "m0")
	var creations sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		creations.Go(func() {
			made, err := s.driver.Create(s.Context(), spec)
			if err != nil {
				s.Error(err)
				return
			}
			ids[i] = made.ID
		})
	}
	creations.Wait()
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 1 {
		s.Errorf("machines %v", ids)
	}
	machines, err := s.driver.List(s.Context(), machine.Filter{Namespace: s.Namespace, Cluster: "at-once"})
	if err != nil || len(machines) != 1 {
		s.Error(machines, err)
	}
}

func conflict(s *suite) {
	spec := s.spec("conflict", "m0")
	made := s.create(spec)
	spec.Memory = resource.MustParse("1Gi")
	if _, err := s.driver.Create(s.Context(), spec); !errors.Is(err, machine.ErrConflict) {
		s.Errorf("error %v", err)
	}
	if m, err := s.driver.Get(s.Context(), spec.Key); err != nil || m.ID != made.ID {
		s.Error(m, err)
	}
}

func notFound(s *suite) {
	if m, err := s.driver.Get(s.Context(), machine.Key{Namespace: s.Namespace, Cluster: "none", Name: "m0"}); !errors.Is(err, machine.ErrNotFound) {
		s.Errorf("%+v, error %v", m, err)
	}
}

func namesApart(s *suite) {
	one, two := s.create(s.spec("apart-1", "m0")), s.create(s.spec("apart-2", "m0"))
	if one.ID == two.ID {
		s.Error("two clusters have the same machine")
	}
	s.must(s.driver.Delete(s.Context(), one.Key))
	s.awaitGone(one.Key)
	s.awaitRunning(two.Key)
}

func list(s *suite) {
	for _, cluster := range []string{"list-1", "list-2"} {
		for i := range 3 {
			s.create(s.spec(cluster, fmt.Sprint("m", 2-i)))
		}
	}
	machines, err := s.driver.List(s.Context(), machine.Filter{Namespace: s.Namespace, Cluster: "list-1"})
	s.must(err)
	var names []string
	for _, m := range machines {
		names = append(names, m.Key.Cluster+"/"+m.Key.Name)
	}
	if !slices.Equal(names, []string{"list-1/m0", "list-1/m1", "list-1/m2"}) {
		s.Errorf("listed %v", names)
	}
	all, err := s.driver.List(s.Context(), machine.Filter{Namespace: s.Namespace})
	s.must(err)
	if len(all) < 6 || !slices.IsSortedFunc(all, func(a, b machine.Machine) int { return a.Key.Compare(b.Key) }) {
		s.Errorf("listed %v", all)
	}
	if none, err := s.driver.List(s.Context(), machine.Filter{Namespace: s.Namespace, Cluster: "list-none"}); err != nil || len(none) != 0 {
		s.Error(none, err)
	}
}

func deletion(s *suite) {
	made := s.create(s.spec("deletion", "m0"))
	s.awaitRunning(made.Key)
	for range 2 {
		s.must(s.driver.Delete(s.Context(), made.Key))
		if m, err := s.driver.Get(s.Context(), made.Key); err == nil && m.State != machine.StateDeleting {
			s.Errorf("%+v", m)
		}
	}
	s.awaitGone(made.Key)
	if machines, err := s.driver.List(s.Context(), machine.Filter{Namespace: s.Namespace, Cluster: "deletion"}); err != nil || len(machines) != 0 {
		s.Error(machines, err)
	}
}

func deleteNothing(s *suite) {
	s.must(s.driver.Delete(s.Context(), machine.Key{Namespace: s.Namespace, Cluster: "nothing", Name: "m0"}))
}

func deletePending(s *suite) {
	made := s.create(s.spec("pending", "m0"))
	s.must(s.driver.Delete(s.Context(), made.Key))
	s.awaitGone(made.Key)
}

func useAgain(s *suite) {
	spec := s.spec("use-again", "m0")
	first := s.create(spec)
	s.must(s.driver.Delete(s.Context(), spec.Key))
	// Until the old one is gone, the key is taken.
	if second, err := s.driver.Create(s.Context(), spec); err != nil && !errors.Is(err, machine.ErrConflict) {
		s.Error(err)
	} else if err == nil && second.ID == first.ID {
		s.Error("a machine that is being deleted was given out")
	}
	s.must(s.driver.Delete(s.Context(), spec.Key))
	s.awaitGone(spec.Key)
	if second := s.create(spec); second.ID == first.ID {
		s.Errorf("both machines are %s", first.ID)
	}
	s.awaitRunning(spec.Key)
}

func refusal(s *suite) {
	good := s.spec("refusal", "m0")
	for what, spoil := range map[string]func(*machine.Spec){
		"no name":    func(spec *machine.Spec) { spec.Key.Name = "" },
		"a bad name": func(spec *machine.Spec) { spec.Key.Name = "Not A Name" },
		"no cluster": func(spec *machine.Spec) { spec.Key.Cluster = "" },
		"no cpu":     func(spec *machine.Spec) { spec.CPU = resource.Quantity{} },
		"no memory":  func(spec *machine.Spec) { spec.Memory = resource.MustParse("-1") },
		"no disk":    func(spec *machine.Spec) { spec.Disk = resource.Quantity{} },
	} {
		spec := good
		spoil(&spec)
		if made, err := s.driver.Create(s.Context(), spec); !errors.Is(err, machine.ErrInvalid) {
			s.Errorf("%s: %+v, error %v", what, made, err)
		}
	}
}

func endedContext(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	spec := s.spec("ended", "m0")
	if _, err := s.driver.Create(ctx, spec); !errors.Is(err, context.Canceled) {
		s.Errorf("Create: %v", err)
	}
	if _, err := s.driver.Get(ctx, spec.Key); !errors.Is(err, context.Canceled) {
		s.Errorf("Get: %v", err)
	}
	if _, err := s.driver.List(ctx, machine.Filter{}); !errors.Is(err, context.Canceled) {
		s.Errorf("List: %v", err)
	}
}
