// Package audit measures what looking after clusters costs while nothing happens to them: 1,000 hosted clusters, each with
// everything that it has on the management cluster, a real API server for their APIs, which all of them share, and the real
// cloudd, connected to each. First cloudd runs without audits, then with them: the difference is what they take. `make
// bench-audit` runs it.
//
// Clusters are audited every minute, five times as often as by default, so that a measurement takes minutes. What an audit
// of a cluster takes is measured, and what 1,000 take by default follows from it. A missed target is reported, never a
// failure: the numbers depend on the machine.
//
// BENCH_AUDIT_CLUSTERS is another number.
package audit

import (
	"fmt"
	"time"

	"plasmacloud.io/plasmacloud/test/measure"
)

// interval between audits of a cluster while it is measured, and usual by default.
const (
	interval = time.Minute
	usual    = 5 * time.Minute
)

// span is what was counted in a time.
type span struct {
	during time.Duration
	cpu    time.Duration // of cloudd
	// requests to the management API and to the clusters' own, and audits.
	management, tenants, audits float64
}

// percent is the part of a processor that was taken.
func (s span) percent() float64 { return 100 * s.cpu.Seconds() / s.during.Seconds() }

// The targets for 1,000 clusters.
const (
	targetCPU      = 5.0  // percent of a processor
	targetRequests = 20.0 // a second
	reference      = 1000.0
)

// figures are the lines of a measurement of so many clusters, without audits and with them.
func figures(clusters int, without, with span) []measure.Figure {
	name := func(what string) string { return fmt.Sprintf("audit_%d_%s", clusters, what) }
	scale, slower := float64(clusters)/reference, interval.Seconds()/usual.Seconds()
	rate := func(of func(span) float64) float64 {
		return max(0, of(with)/with.during.Seconds()-of(without)/without.during.Seconds())
	}
	cpu := max(0, with.percent()-without.percent())
	requests := rate(func(s span) float64 { return s.management + s.tenants })
	audits := with.audits / with.during.Seconds()
	return []measure.Figure{
		{Name: name("every_minute"), Value: audits, Unit: "1/s", Target: 0.7 * float64(clusters) / interval.Seconds(), Least: true},
		{Name: name("every_minute_cpu"), Value: cpu, Unit: "%", Target: targetCPU * scale / slower},
		{Name: name("every_minute_requests"), Value: requests, Unit: "1/s", Target: targetRequests * scale / slower},
		{Name: name("cpu"), Value: cpu * slower, Unit: "%", Target: targetCPU * scale},
		{Name: name("requests"), Value: requests * slower, Unit: "1/s", Target: targetRequests * scale},
		{Name: name("management_requests"), Value: rate(func(s span) float64 { return s.management }) * slower, Unit: "1/s", Target: targetRequests * scale},
		{Name: name("cpu_per_audit"), Value: 1000 * cpu / 100 / max(audits, 0.001), Unit: "ms", Target: 15},
		{Name: name("idle_cpu_without"), Value: without.percent(), Unit: "%", Target: 10 * scale},
	}
}
