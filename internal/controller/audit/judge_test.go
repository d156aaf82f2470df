package audit

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// repairs are automatic ones that ended so long before noon, each a minute after it began.
func repairs(ago ...time.Duration) []attempt {
	var all []attempt
	for _, ago := range ago {
		all = append(all, attempt{began: noon.Add(-ago - time.Minute), ended: noon.Add(-ago), reason: "another one"})
	}
	return all
}

func again(all []attempt, reason string) []attempt {
	for i := range all {
		all[i].reason = reason
	}
	return all
}

func TestJudge(t *testing.T) {
	limits := DefaultLimits()
	broken := []v1alpha1.Finding{{Check: CheckConfiguration, Subject: "kubelet", Message: "it is stopped", Remedy: "look at its log", Repairable: true}}
	hopeless := []v1alpha1.Finding{{Check: CheckCertificates, Message: "the authority has expired", Remedy: "make a new cluster"}}
	risky := []v1alpha1.Finding{{Check: CheckEtcd, Message: "two of three are lost", Risk: "data may be lost", Repairable: true}}
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	for name, test := range map[string]struct {
		findings []v1alpha1.Finding
		history  history
		reason   string
		repair   bool
		again    time.Duration // after noon
		mentions string
	}{
		"all is well":                               {nil, history{}, v1alpha1.ReasonHealthy, false, 0, ""},
		"well after repairs":                        {nil, history{repairs: repairs(minutes(1))}, v1alpha1.ReasonHealthy, false, 0, ""},
		"the first repair begins at once":           {broken, history{}, v1alpha1.ReasonUnhealthy, true, 0, "kubelet: it is stopped"},
		"the second waits":                          {broken, history{repairs: repairs(10 * time.Second)}, v1alpha1.ReasonUnhealthy, false, 21 * time.Second, "repair 2 of 5 begins at 12:00:21"},
		"the second begins":                         {broken, history{repairs: repairs(30 * time.Second)}, v1alpha1.ReasonUnhealthy, true, 0, ""},
		"the third waits longer":                    {broken, history{repairs: repairs(minutes(3), 30*time.Second)}, v1alpha1.ReasonUnhealthy, false, 31 * time.Second, "repair 3 of 5"},
		"after a quiet time it is the first":        {broken, history{repairs: repairs(minutes(100), minutes(98), minutes(96), minutes(94), minutes(70))}, v1alpha1.ReasonUnhealthy, true, 0, ""},
		"a pause in between counts":                 {broken, history{repairs: repairs(minutes(100), minutes(98), minutes(96), minutes(94), minutes(2))}, v1alpha1.ReasonUnhealthy, true, 0, ""},
		"what has helped does not count":            {broken, history{repairs: repairs(minutes(40), minutes(30), minutes(20), minutes(10), minutes(5)), healthy: noon.Add(-minutes(4))}, v1alpha1.ReasonUnhealthy, true, 0, ""},
		"what helped does not count, later ones do": {broken, history{repairs: repairs(minutes(40), minutes(30), 10*time.Second), healthy: noon.Add(-minutes(20))}, v1alpha1.ReasonUnhealthy, false, 21 * time.Second, "repair 2 of 5"},
		"the same again counts though it helped":    {broken, history{repairs: again(repairs(10*time.Second), "kubelet: it is stopped"), healthy: noon}, v1alpha1.ReasonUnhealthy, false, 21 * time.Second, "repair 2 of 5"},
		"five have not helped":                      {broken, history{repairs: repairs(minutes(40), minutes(30), minutes(20), minutes(10), minutes(5))}, v1alpha1.ReasonRepairsExhausted, false, 0, "5 repairs have not helped"},
		"what to do then":                           {broken, history{repairs: repairs(minutes(40), minutes(30), minutes(20), minutes(10), minutes(5))}, v1alpha1.ReasonRepairsExhausted, false, 0, "look at its log"},
		"exhausted for good":                        {broken, history{repairs: repairs(minutes(300)), exhausted: true}, v1alpha1.ReasonRepairsExhausted, false, 0, "cloud k8s repair"},
		"what no repair mends":                      {hopeless, history{}, v1alpha1.ReasonActionNeeded, false, 0, "the authority has expired: make a new cluster"},
		"some of it can be mended":                  {append(hopeless[:1:1], broken...), history{}, v1alpha1.ReasonUnhealthy, true, 0, "the authority has expired; kubelet"},
		"what could lose data":                      {risky, history{}, v1alpha1.ReasonRepairRefused, false, 0, "--force"},
		"what could lose data says why":             {append(broken[:1:1], risky...), history{}, v1alpha1.ReasonRepairRefused, false, 0, "data may be lost"},
		"a person is at it":                         {broken, history{waits: "dev-upgrade-3"}, v1alpha1.ReasonActionNeeded, false, 0, "task dev-upgrade-3"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(test.findings, test.history, limits, noon)
			if got.health.Reason != test.reason || got.repair != test.repair {
				t.Errorf("%s, repair %t; want %s, %t: %s", got.health.Reason, got.repair, test.reason, test.repair, got.health.Message)
			}
			if !strings.Contains(got.health.Message, test.mentions) {
				t.Errorf("%q does not say %q", got.health.Message, test.mentions)
			}
			switch {
			case test.again == 0 && !got.again.IsZero():
				t.Errorf("it is looked at again at %s", got.again)
			case test.again > 0 && !got.again.Equal(noon.Add(test.again)):
				t.Errorf("it is looked at again at %s, want after %s", got.again, test.again)
			}
		})
	}
}

func TestDelaysGrowToALimit(t *testing.T) {
	limits := Limits{First: time.Minute, Longest: 5 * time.Minute}
	for tried, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 3: 4 * time.Minute, 4: 5 * time.Minute, 50: 5 * time.Minute} {
		if got := limits.delay(tried); got != want {
			t.Errorf("after %d: %s, want %s", tried, got, want)
		}
	}
}

func TestHistoryBeginsWithWhatAPersonDidLast(t *testing.T) {
	made := func(minute int, automatic bool, phase v1alpha1.TaskPhase) v1alpha1.Task {
		at := metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute))
		return v1alpha1.Task{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at, Name: "t"},
			Spec:       v1alpha1.TaskSpec{Operation: v1alpha1.OperationRepair, Automatic: automatic},
			Status:     v1alpha1.TaskStatus{Phase: phase, FinishedAt: &at},
		}
	}
	for name, test := range map[string]struct {
		tasks   []v1alpha1.Task
		repairs int
		waits   bool
	}{
		"none":                   {nil, 0, false},
		"in any order":           {[]v1alpha1.Task{made(3, true, v1alpha1.TaskFailed), made(1, false, v1alpha1.TaskSucceeded), made(2, true, v1alpha1.TaskSucceeded)}, 2, false},
		"a person begins anew":   {[]v1alpha1.Task{made(1, true, v1alpha1.TaskFailed), made(2, false, v1alpha1.TaskSucceeded)}, 0, false},
		"a person's failure":     {[]v1alpha1.Task{made(1, true, v1alpha1.TaskFailed), made(2, false, v1alpha1.TaskFailed)}, 0, true},
		"cancelled by a person":  {[]v1alpha1.Task{made(1, true, v1alpha1.TaskCancelled)}, 1, true},
		"cancelled for the next": {[]v1alpha1.Task{made(1, true, v1alpha1.TaskCancelled), made(2, true, v1alpha1.TaskFailed)}, 2, false},
	} {
		if got := historyOf(&v1alpha1.Cluster{}, test.tasks); len(got.repairs) != test.repairs || (got.waits != "") != test.waits {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhatMayPassHasToLast(t *testing.T) {
	limits := Limits{Grace: time.Minute}
	m := &memory{since: map[string]time.Time{}}
	away := v1alpha1.Finding{Check: CheckAPI, Message: "it does not answer"}
	edited := v1alpha1.Finding{Check: CheckConfiguration, Message: "it was edited"}
	ripe, next := m.ripe([]v1alpha1.Finding{away, edited}, limits, noon)
	if len(ripe) != 1 || ripe[0].Check != CheckConfiguration || !next.Equal(noon.Add(time.Minute)) {
		t.Error(ripe, next)
	}
	if ripe, _ = m.ripe([]v1alpha1.Finding{away}, limits, noon.Add(time.Minute)); len(ripe) != 1 {
		t.Error("it has lasted", ripe)
	}
	m.ripe(nil, limits, noon.Add(2*time.Minute))
	if ripe, _ = m.ripe([]v1alpha1.Finding{away}, limits, noon.Add(3*time.Minute)); len(ripe) != 0 {
		t.Error("it was well in between", ripe)
	}
}
