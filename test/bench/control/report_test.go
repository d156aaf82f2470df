package control

import (
	"testing"
	"time"
)

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
	if grown[0].Value != 2 || grown[1].Value != 1 {
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
