package control

import (
	"testing"
	"time"
)

func TestLinesSayWhetherTargetsWereReached(t *testing.T) {
	for _, test := range []struct {
		figure figure
		want   string
	}{
		{figure{"wait", 12.345, "s", 180, false}, "BENCH wait 12.35 s target<=180 ok"},
		{figure{"wait", 181, "s", 180, false}, "BENCH wait 181.00 s target<=180 short"},
		{figure{"rate", 16, "1/s", 5.5, true}, "BENCH rate 16.00 1/s target>=5.5 ok"},
		{figure{"rate", 5, "1/s", 5.5, true}, "BENCH rate 5.00 1/s target>=5.5 short"},
	} {
		if got := test.figure.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestCostIsPerCluster(t *testing.T) {
	of := func(n int, elapsed, cpu time.Duration) run {
		s := stage{elapsed: elapsed, cpu: map[string]time.Duration{cloudd: cpu}}
		return run{clusters: n, create: s, scale: s, delete: s}
	}
	few, many := of(10, time.Second, 100*time.Millisecond), of(50, 5*time.Second, time.Second)
	if got := few.cost(cloudd); got != 30*time.Millisecond {
		t.Errorf("cost = %s, want 30ms", got)
	}
	grown := growth(few, many)
	if grown[0].value != 2 || grown[1].value != 1 {
		t.Errorf("growth = %v, want 2 of processor time and 1 of time", grown)
	}
}

func TestPercentiles(t *testing.T) {
	var s stage
	if s.percentile(50) != 0 {
		t.Error("nothing took a time")
	}
	for i := range 101 {
		s.latencies = append(s.latencies, time.Duration(100-i)*time.Second)
	}
	if p50, p99 := s.percentile(50), s.percentile(99); p50 != 50*time.Second || p99 != 99*time.Second {
		t.Errorf("p50 %s, p99 %s", p50, p99)
	}
}
