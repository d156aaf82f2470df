package iam

import (
	"slices"
	"testing"
	"time"
)

func TestLines(t *testing.T) {
	fast := results{elapsed: time.Second}
	for i := range 4000 {
		fast.latencies = append(fast.latencies, time.Duration(4000-i)*time.Microsecond)
	}
	slow := results{elapsed: time.Second, latencies: []time.Duration{20 * time.Millisecond}}
	for _, c := range []struct {
		report report
		want   []string
	}{
		{report{fast, slow, fast}, []string{"BENCH iam_requests_per_second 4000 1/s target>=2000 ok", "BENCH iam_p99_ms 3.96 ms target<=10 ok"}},
		{report{slow}, []string{"BENCH iam_requests_per_second 1 1/s target>=2000 short", "BENCH iam_p99_ms 20.00 ms target<=10 short"}},
		{report{{elapsed: time.Second}}, []string{"BENCH iam_requests_per_second 0 1/s target>=2000 short", "BENCH iam_p99_ms 0.00 ms target<=10 short"}},
	} {
		if got := c.report.lines(); !slices.Equal(got, c.want) {
			t.Errorf("got %q", got)
		}
	}
}
