package measure

import (
	"testing"
	"time"
)

func TestFigureSaysWhetherItsTargetIsReached(t *testing.T) {
	for want, f := range map[string]Figure{
		"BENCH api_ready_seconds 4.93 seconds target<=5 ok":       {Name: "api_ready_seconds", Value: 4.93, Unit: "seconds", Target: 5},
		"BENCH idle_resident_mb 700.10 MB target<=700 short":      {Name: "idle_resident_mb", Value: 700.1, Unit: "MB", Target: 700},
		"BENCH speedup_over_kubeadm 4.00 times target>=4 ok":      {Name: "speedup_over_kubeadm", Value: 4, Unit: "times", Target: 4, Least: true},
		"BENCH speedup_over_kubeadm 3.90 times target>=4 short":   {Name: "speedup_over_kubeadm", Value: 3.9, Unit: "times", Target: 4, Least: true},
		"BENCH first_pod_seconds 12.00 seconds target<=12.5 ok":   {Name: "first_pod_seconds", Value: 12, Unit: "seconds", Target: 12.5},
		"BENCH node_ready_seconds 10.10 seconds target<=10 short": {Name: "node_ready_seconds", Value: 10.1, Unit: "seconds", Target: 10},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMedianIgnoresWhatStandsOut(t *testing.T) {
	if got := Median([]time.Duration{9, 2, 1000}); got != 9 {
		t.Errorf("of three: got %d", got)
	}
	if got := Median([]time.Duration{4, 2}); got != 3 {
		t.Errorf("of two: got %d", got)
	}
}

func TestPercentileIsAMeasuredValue(t *testing.T) {
	values := []time.Duration{5, 1, 4, 2, 3}
	for percent, want := range map[int]time.Duration{50: 3, 95: 5, 20: 1, 100: 5} {
		if got := Percentile(values, percent); got != want {
			t.Errorf("%d %%: got %d, want %d", percent, got, want)
		}
	}
}
