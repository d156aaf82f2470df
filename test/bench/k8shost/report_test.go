package k8shost

import (
	"testing"
	"time"
)

func TestFigureSaysWhetherItsTargetIsReached(t *testing.T) {
	for want, f := range map[string]figure{
		"BENCH api_ready_seconds 4.9 seconds target<=5 ok":       {name: "api_ready_seconds", value: 4.93, unit: "seconds", target: 5},
		"BENCH idle_resident_mb 700.1 MB target<=700 short":      {name: "idle_resident_mb", value: 700.1, unit: "MB", target: 700},
		"BENCH speedup_over_kubeadm 4.0 times target>=4 ok":      {name: "speedup_over_kubeadm", value: 4, unit: "times", target: 4, least: true},
		"BENCH speedup_over_kubeadm 3.9 times target>=4 short":   {name: "speedup_over_kubeadm", value: 3.9, unit: "times", target: 4, least: true},
		"BENCH first_pod_seconds 12.0 seconds target<=12.5 ok":   {name: "first_pod_seconds", value: 12, unit: "seconds", target: 12.5},
		"BENCH node_ready_seconds 10.1 seconds target<=10 short": {name: "node_ready_seconds", value: 10.1, unit: "seconds", target: 10},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMedianIgnoresWhatStandsOut(t *testing.T) {
	if got := median([]time.Duration{9, 2, 1000}); got != 9 {
		t.Errorf("of three: got %d", got)
	}
	if got := median([]time.Duration{4, 2}); got != 3 {
		t.Errorf("of two: got %d", got)
	}
}
