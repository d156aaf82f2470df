package pods

import (
	"errors"
	"testing"

	"plasmacloud.io/plasmacloud/internal/deployer"
)

// elsewhere asks for an operation that a deployer elsewhere does.
func (w *world) elsewhere(id string) deployer.Request {
	w.t.Helper()
	asked := request(id)
	asked.Remote = true
	if _, err := w.Ensure(w.t.Context(), asked); err != nil {
		w.t.Fatal(err)
	}
	return asked
}

func TestACancelledDeployerElsewhereGetsToKnow(t *testing.T) {
	w := newWorld(t)
	asked := w.elsewhere("a")
	if leased, err := w.Lease(t.Context(), asked.Account, "site", 1); err != nil || len(leased) != 1 {
		t.Fatalf("%v, %v", leased, err)
	}
	if err := w.Renew(t.Context(), asked.Stack, turn("a", 1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ended, err := w.Cancel(t.Context(), asked.Stack, "a"); err != nil || ended {
			t.Errorf("it has ended, or %v", err)
		}
		if err := w.Renew(t.Context(), asked.Stack, turn("a", 1)); !errors.Is(err, deployer.ErrCancelled) {
			t.Errorf("it is told %v", err)
		}
	}
	w.mustReport(deployer.Report{Turn: turn("a", 1), Phase: deployer.Failed, Error: "interrupted"})
	if ended, err := w.Cancel(t.Context(), asked.Stack, "a"); err != nil || !ended {
		t.Errorf("it has not ended, or %v", err)
	}
}

func TestWhatNobodyHasComeForIsWithdrawn(t *testing.T) {
	w := newWorld(t)
	asked := w.elsewhere("a")
	if ended, err := w.Cancel(t.Context(), asked.Stack, "a"); err != nil || !ended {
		t.Errorf("it has not ended, or %v", err)
	}
	if leased, err := w.Lease(t.Context(), asked.Account, "site", 1); err != nil || len(leased) != 0 {
		t.Errorf("%v, %v", leased, err)
	}
}
