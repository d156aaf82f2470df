// Package iam measures how many tokens a second the identity service judges, and how long the slowest wait: a replica of
// the real service, fed by a real API server, asked over HTTPS with mutual TLS by several clients at once, as API
// servers do. `make bench-iam` runs it. Client and server share the machine. A missed target is reported, never a
// failure: the numbers depend on the machine.
package iam

import (
	"fmt"
	"slices"
	"time"
)

// The targets.
const (
	targetRate = 2000 // 1/s
	targetP99  = 10 * time.Millisecond
)

// results are the times that the requests of a round took, in a time.
type results struct {
	latencies []time.Duration
	elapsed   time.Duration
}

func (r results) rate() float64 { return float64(len(r.latencies)) / r.elapsed.Seconds() }

// percentile is the time that so many of a thousand requests did not exceed.
func (r results) percentile(perMille int) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.latencies))
	return sorted[(len(sorted)-1)*perMille/1000]
}

func (r results) String() string {
	return fmt.Sprintf("p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, p99.9 %.2f ms",
		milliseconds(r.percentile(500)), milliseconds(r.percentile(900)), milliseconds(r.percentile(990)), milliseconds(r.percentile(999)))
}

// report is several rounds. The middle one counts: one that something else on the machine disturbed does not.
type report []results

// lines are for programs to read.
func (r report) lines() []string {
	rate := r.middle(results.rate)
	p99 := r.middle(func(round results) float64 { return milliseconds(round.percentile(990)) })
	return []string{
		fmt.Sprintf("BENCH iam_requests_per_second %.0f 1/s target>=%d %s", rate, targetRate, verdict(rate >= targetRate)),
		fmt.Sprintf("BENCH iam_p99_ms %.2f ms target<=%g %s", p99, milliseconds(targetP99), verdict(rate > 0 && p99 <= milliseconds(targetP99))),
	}
}

func (r report) middle(of func(results) float64) float64 {
	values := make([]float64, len(r))
	for i, round := range r {
		values[i] = of(round)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func verdict(reached bool) string {
	if reached {
		return "ok"
	}
	return "short"
}
