package nodegroup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// members are written as one letter each: r ready, n not ready, b broken, u unmade, s stuck; capital letters are of an
// older description. The first is the oldest.
func parse(text string) []member {
	var members []member
	for i, letter := range text {
		m := member{name: fmt.Sprintf("m%d", i), age: noon.Add(time.Duration(i) * time.Minute), updated: true}
		if letter < 'a' {
			m.updated, letter = false, letter+'a'-'A'
		}
		m.health = map[rune]health{'r': ready, 'n': notReady, 'b': broken, 'u': unmade, 's': unmade}[letter]
		m.stuck = letter == 's'
		members = append(members, m)
	}
	return members
}

func TestDecide(t *testing.T) {
	usual := demand{replicas: 3, surge: 1, replaced: 1}
	for name, test := range map[string]struct {
		demand  demand
		members string
		create  int
		deleted string // the numbers of those that go, in order
		held    int
	}{
		"a new group":                              {usual, "", 3, "", 0},
		"nothing to do":                            {usual, "rrr", 0, "", 0},
		"nothing to do while they come up":         {usual, "uru", 0, "", 0},
		"scale up":                                 {demand{replicas: 5, surge: 1, replaced: 2}, "rrr", 2, "", 0},
		"scale down takes the oldest":              {demand{replicas: 1, surge: 1, replaced: 1}, "rrr", 0, "01", 0},
		"scale down takes the unhealthy first":     {demand{replicas: 2, surge: 1, replaced: 1}, "rrnr", 0, "20", 0},
		"scale down takes the unmade first":        {demand{replicas: 2, surge: 1, replaced: 1}, "rrrus", 0, "340", 0},
		"scale to nothing":                         {demand{replicas: 0, surge: 1, replaced: 1}, "rbn", 0, "120", 0},
		"scale down of an older description":       {demand{replicas: 2, surge: 1, replaced: 1}, "rrRr", 0, "20", 0},
		"a broken one is replaced":                 {usual, "rbr", 1, "1", 0},
		"one at a time":                            {usual, "bbr", 1, "0", 1},
		"the next waits for the first":             {usual, "bru", 0, "", 1},
		"a stuck one is not waited for":            {usual, "brs", 1, "0", 0},
		"a share of many":                          {demand{replicas: 10, surge: 1, replaced: 4}, "bbbbbbbbbb", 4, "0123", 6},
		"rolling begins with one more":             {usual, "RRR", 1, "", 0},
		"rolling waits for the new one":            {usual, "RRRu", 0, "", 0},
		"rolling takes the oldest":                 {usual, "RRRr", 1, "0", 0},
		"rolling ends":                             {usual, "Rrrr", 0, "0", 0},
		"rolling with one fewer":                   {demand{replicas: 3, unavailable: 1, replaced: 1}, "RRR", 1, "0", 0},
		"rolling with one fewer waits":             {demand{replicas: 3, unavailable: 1, replaced: 1}, "RRu", 0, "", 0},
		"rolling with many more":                   {demand{replicas: 3, surge: 3, replaced: 1}, "RRR", 3, "", 0},
		"rolling takes the unmade at once":         {usual, "RRU", 2, "2", 0},
		"rolling takes the sick only where others": {usual, "RNRr", 1, "1", 0},
		"rolling leaves the sick where it counts":  {usual, "RNR", 1, "", 0},
		"rolling replaces broken old ones":         {usual, "RBR", 2, "1", 0},
		"rolling with a sick new one stops":        {usual, "RRRn", 0, "", 0},
		"rolling and scaling down":                 {demand{replicas: 1, surge: 1, replaced: 1}, "RRRr", 0, "012", 0},
		"scaling down and old ones not made":       {demand{replicas: 0, surge: 1, replaced: 1}, "UUR", 0, "012", 0},
		"held back and scaled down":                {demand{replicas: 2, surge: 1, replaced: 1}, "bbbrr", 0, "012", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(test.demand, parse(test.members))
			deleted := ""
			for _, removed := range p.delete {
				deleted += removed.name[1:]
			}
			if p.create != test.create || deleted != test.deleted || p.held != test.held {
				t.Errorf("create %d, delete %q, held %d; want %d, %q, %d", p.create, deleted, p.held, test.create, test.deleted, test.held)
			}
		})
	}
}

// TestEveryGroupComesToRest lets groups in any state go on until nothing is left to do, and looks at the limits on the
// way.
func TestEveryGroupComesToRest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		d := demand{replicas: random.IntN(7), surge: random.IntN(3), unavailable: random.IntN(3), replaced: 1 + random.IntN(3)}
		if d.surge+d.unavailable == 0 {
			d.surge = 1
		}
		text := ""
		for range random.IntN(9) {
			text += string("rnbuRNBU"[random.IntN(8)])
		}
		members, next := parse(text), 100
		for round := 0; ; round++ {
			if round > 100 {
				t.Fatalf("%+v from %q does not come to rest: %+v", d, text, members)
			}
			p := decide(d, slices.Clone(members))
			if p.create == 0 && len(p.delete) == 0 && p.held == 0 && count(members, func(m member) bool { return m.health != ready }) == 0 {
				break
			}
			members = check(t, d, members, p)
			for range p.create {
				members = append(members, member{name: fmt.Sprintf("m%d", next), age: noon.Add(time.Duration(next) * time.Minute), updated: true, health: unmade})
				next++
			}
			progress(members, random)
		}
		if len(members) != d.replicas || count(members, func(m member) bool { return m.updated }) != d.replicas {
			t.Fatalf("%+v from %q ends with %+v", d, text, members)
		}
	}
}

// check asserts the limits of one plan, and carries out its removals.
func check(t *testing.T, d demand, members []member, p plan) []member {
	t.Helper()
	left := slices.DeleteFunc(slices.Clone(members), func(m member) bool {
		return slices.ContainsFunc(p.delete, func(r removal) bool { return r.name == m.name })
	})
	if total := len(left) + p.create; p.create > 0 && total > d.replicas+d.surge {
		t.Fatalf("%+v: %d machines by %+v from %+v", d, total, p, members)
	}
	isReady := func(m member) bool { return m.health == ready }
	before, after := count(members, isReady), count(left, isReady)
	if least := d.replicas - d.unavailable; after < least && after < before {
		t.Fatalf("%+v: %d ready machines are left by %+v of %+v", d, after, p, members)
	}
	return left
}

// progress lets machines come up, and sick ones recover or break.
func progress(members []member, random *rand.Rand) {
	for i := range members {
		switch {
		case members[i].health == unmade:
			members[i].health = ready
		case members[i].health == notReady && random.IntN(2) == 0:
			members[i].health = broken
		case members[i].health == notReady:
			members[i].health = ready
		}
	}
}

func TestDemand(t *testing.T) {
	percent := func(text string) *intstr.IntOrString { return ptr.To(intstr.FromString(text)) }
	for name, test := range map[string]struct {
		replicas, low, high int32
		update              v1alpha1.RollingUpdate
		want                demand
	}{
		"defaults":            {3, 0, 10, v1alpha1.RollingUpdate{}, demand{3, 1, 0, 1}},
		"percentages":         {10, 0, 10, v1alpha1.RollingUpdate{MaxSurge: percent("25%"), MaxUnavailable: percent("25%")}, demand{10, 3, 2, 4}},
		"percentages of few":  {1, 0, 10, v1alpha1.RollingUpdate{MaxSurge: percent("0%"), MaxUnavailable: percent("25%")}, demand{1, 1, 0, 1}},
		"more than the most":  {9, 0, 5, v1alpha1.RollingUpdate{}, demand{5, 1, 0, 2}},
		"less than the least": {0, 2, 5, v1alpha1.RollingUpdate{}, demand{2, 1, 0, 1}},
		"numbers":             {4, 0, 5, v1alpha1.RollingUpdate{MaxSurge: ptr.To(intstr.FromInt32(2)), MaxUnavailable: ptr.To(intstr.FromInt32(1))}, demand{4, 2, 1, 1}},
	} {
		spec := &v1alpha1.NodeGroupSpec{Replicas: test.replicas, Template: v1alpha1.NodeGroupTemplate{MinReplicas: test.low, MaxReplicas: test.high, RollingUpdate: test.update}}
		if got := demandOf(spec, 40); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestJudge(t *testing.T) {
	limits := DefaultLimits()
	condition := func(kind string, value metav1.ConditionStatus, reason string, ago time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, Status: value, Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-ago))}
	}
	joined := condition(machine.ConditionJoined, metav1.ConditionTrue, "Ready", time.Hour)
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       health
		due        time.Duration // from now; zero for never
		stuck      bool
	}{
		"nobody has looked yet":   {nil, unmade, 0, false},
		"it waits for the API":    {[]metav1.Condition{condition("Ready", "Unknown", "Waiting", time.Hour)}, unmade, 0, false},
		"there is no room":        {[]metav1.Condition{condition("Ready", "Unknown", machine.ReasonNoCapacity, time.Hour)}, unmade, 0, true},
		"it joins":                {[]metav1.Condition{condition("Ready", "False", "Provisioning", time.Minute)}, unmade, 9 * time.Minute, false},
		"it never joined":         {[]metav1.Condition{condition("Ready", "False", "Provisioning", 11*time.Minute)}, broken, 0, false},
		"it is ready":             {[]metav1.Condition{condition("Ready", "True", "Ready", time.Hour), joined}, ready, 0, false},
		"not ready for a while":   {[]metav1.Condition{condition("Ready", "False", machine.ReasonNodeNotReady, time.Minute), joined}, notReady, 4 * time.Minute, false},
		"not ready for long":      {[]metav1.Condition{condition("Ready", "False", machine.ReasonNodeNotReady, 6*time.Minute), joined}, broken, 0, false},
		"lost":                    {[]metav1.Condition{condition("Ready", "False", machine.ReasonLost, 0), joined}, broken, 0, false},
		"failed before it joined": {[]metav1.Condition{condition("Ready", "False", machine.ReasonFailed, 0)}, unmade, 30 * time.Second, false},
	} {
		m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-30 * time.Second))}}
		m.Status.Conditions = test.conditions
		got := judge(m, "", limits, noon)
		var due time.Time
		if test.due != 0 {
			due = noon.Add(test.due)
		}
		if got.health != test.want || !got.due.Equal(due) || got.stuck != test.stuck {
			t.Errorf("%s: %+v, want %d, due %s", name, got, test.want, due)
		}
	}
}
