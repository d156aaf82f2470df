// Package byoc measures what the platform adds to OpenTofu. A network and a cluster in AWS are made by a deployer, from its
// order to its last report, with everything that it does besides applying: plan, show, check, keep the state with the
// platform, read outputs; and the same configurations, with the same variables, by `tofu init` and `tofu apply` in a folder,
// in the same run, by turns. Then many stacks are planned at once by one deployer. In place of AWS is a stub: what is slow in
// AWS, such as clusters, groups of nodes and NAT gateways, takes five seconds there instead of minutes, and what we add, which
// is processor time mostly, weighs more than it would in a cloud. `make bench-byoc` runs it.
//
// A missed target is reported, never a failure: the numbers depend on the machine. BENCH_BYOC_STACKS is another number of
// stacks.
package byoc

import (
	"fmt"
	"time"

	"plasmacloud.io/plasmacloud/test/measure"
)

// round is how long both take to make the same.
type round struct{ bare, ours time.Duration }

// crowd is many stacks planned at once.
type crowd struct {
	stacks int
	all    time.Duration // until the last was planned
	memory int64         // of engines and providers together, at most
}

const (
	targetOverhead = 1.15
	targetMemory   = 256.0 // MiB for each stack: what a deployer's pod asks for
	targetPlans    = 4.0   // seconds for each stack
)

// figures are the lines of a measurement.
func figures(rounds []round, c crowd) []measure.Figure {
	var bare, ours []time.Duration
	for _, each := range rounds {
		bare, ours = append(bare, each.bare), append(ours, each.ours)
	}
	ratio := measure.Median(ours).Seconds() / max(measure.Median(bare).Seconds(), 0.001)
	name := func(what string) string { return fmt.Sprintf("byoc_%d_plans_%s", c.stacks, what) }
	return []measure.Figure{
		{Name: "byoc_apply", Value: measure.Median(ours).Seconds(), Unit: "s", Target: targetOverhead * measure.Median(bare).Seconds()},
		{Name: "byoc_apply_to_bare_tofu", Value: ratio, Unit: "x", Target: targetOverhead},
		{Name: name("time"), Value: c.all.Seconds(), Unit: "s", Target: targetPlans * float64(c.stacks)},
		{Name: name("memory"), Value: float64(c.memory) / measure.Mebibyte, Unit: "MiB", Target: targetMemory * float64(c.stacks)},
		{Name: name("memory_each"), Value: float64(c.memory) / measure.Mebibyte / float64(max(c.stacks, 1)), Unit: "MiB", Target: targetMemory},
	}
}
