package task

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestAnItemRefersToItsTask(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	later := metav1.NewTime(time.Unix(2000, 0))
	item := ItemOf(&v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: "project-a", Name: "dev-create-1", UID: "u"},
		Spec: v1alpha1.TaskSpec{Resource: v1alpha1.ResourceReference{Kind: "Cluster", Name: "dev"},
			Priority: 20, Deadline: &later},
		Status: v1alpha1.TaskStatus{RetryAt: &at},
	})
	if item.Key != "project-a/Cluster/dev" || item.Priority != 20 || item.UID != "u" || item.Task.String() != "project-a/dev-create-1" {
		t.Errorf("%+v", item)
	}
	if !item.NotBefore.Equal(at.Time) || !item.Deadline.Equal(later.Time) || !item.Due().Equal(at.Time) {
		t.Errorf("%+v", item)
	}
	item.NotBefore = time.Unix(3000, 0)
	if !item.Due().Equal(later.Time) {
		t.Error("an item is due at its deadline at the latest")
	}
}

func TestClassesAreTens(t *testing.T) {
	for priority, want := range map[int32]Class{-100: -1, -1: -1, 0: 0, 9: 0, 10: 1, 19: 1, 20: 2, 30: 3, 1000: 3} {
		if got := (Item{Priority: priority}).Class(); got != want {
			t.Errorf("priority %d is class %d, not %d", priority, got, want)
		}
	}
}

func TestARetryIsDueAtTheDeadlineUnlessThatHasPassed(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		deadline time.Time
		want     int64
	}{{time.Time{}, 1060}, {time.Unix(1030, 0), 1030}, {time.Unix(2000, 0), 1060}, {time.Unix(900, 0), 1060}} {
		if got := (Item{Deadline: c.deadline}).RetryDue(now, time.Minute).Unix(); got != c.want {
			t.Errorf("deadline %s: due at %d, not %d", c.deadline, got, c.want)
		}
	}
}

func TestBackoffDoublesUpToItsMaximumAndVaries(t *testing.T) {
	b := Backoff{First: time.Second, Max: 10 * time.Second}
	for failures, want := range map[int]time.Duration{0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 10, 6: 10, 1000: 10} {
		want *= time.Second
		seen := map[time.Duration]bool{}
		for range 50 {
			delay := b.Delay(failures)
			if delay < want || delay > want*3/2 {
				t.Errorf("after %d failures: %s", failures, delay)
			}
			seen[delay] = true
		}
		if len(seen) < 25 {
			t.Errorf("after %d failures: %d different delays of 50", failures, len(seen))
		}
	}
}

func TestShardsAreDisjointCompleteAndEven(t *testing.T) {
	const keys, count = 3000, 3
	owned := [count]int{}
	for i := range keys {
		owners := 0
		for index := range count {
			if (Shard{Index: index, Count: count}).Owns(fmt.Sprint("project/Cluster/", i)) {
				owners++
				owned[index]++
			}
		}
		if owners != 1 {
			t.Fatalf("key %d has %d owners", i, owners)
		}
	}
	for index, n := range owned {
		if n < keys/count*9/10 || n > keys/count*11/10 {
			t.Errorf("shard %d has %d of %d keys", index, n, keys)
		}
	}
	if !(Shard{}).Owns("anything") {
		t.Error("the whole does not own everything")
	}
	for _, shard := range []Shard{{0, -1}, {-1, 2}, {2, 2}, {1, 0}} {
		if shard.Validate() == nil {
			t.Errorf("%+v is valid", shard)
		}
	}
}

func TestPermanentErrorsAreRecognizedThroughWrapping(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("step: %w", Permanent(fmt.Errorf("inner: %w", cause)))
	if !IsPermanent(err) || !errors.Is(err, cause) || err.Error() != "step: inner: cause" {
		t.Error(err)
	}
	if IsPermanent(cause) || Permanent(nil) != nil {
		t.Error("what is not permanent is")
	}
}

func TestAScopeWorksWithoutAWorker(t *testing.T) {
	scope := &Scope{Task: &v1alpha1.Task{Status: v1alpha1.TaskStatus{Outputs: map[string]string{"a": "1"}}}}
	scope.Report("nobody %s", "listens")
	scope.SetOutput("b", "2")
	if scope.Output("a") != "1" || scope.Output("b") != "2" || len(scope.Outputs()) != 1 {
		t.Errorf("%v", scope.Outputs())
	}
}
