package v1alpha1_test

import (
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestRepairRequestsAreReadAsTheyWereWritten(t *testing.T) {
	at := time.Date(2026, 11, 15, 9, 30, 0, 500_000_000, time.UTC)
	for _, request := range []v1alpha1.RepairRequest{
		{At: at}, {At: at, Force: true}, {At: at, Automatic: true, Reason: "machine m-1: it is lost: the pod is gone"},
		{At: at, Automatic: true, Force: true, Reason: "why not"}, {At: at, Reason: "automatic forced"},
	} {
		if got := v1alpha1.ParseRepairRequest(request.String()); got != request {
			t.Errorf("%q is read as %+v", request, got)
		}
	}
	for _, text := range []string{"", "please", "forced: do it", "2026 forced"} {
		if got := v1alpha1.ParseRepairRequest(text); got != (v1alpha1.RepairRequest{}) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	split := v1alpha1.RepairRequest{At: at, Reason: "one\n two"}
	if got := v1alpha1.ParseRepairRequest(split.String()).Reason; got != "one two" {
		t.Errorf("reason %q", got)
	}
}
