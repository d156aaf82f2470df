// Package measure is what the benchmarks under test/bench share: figures with their targets, what processes take, and
// `kubeadm init` in a machine pod, which ours are compared with.
package measure

import (
	"fmt"
	"slices"
	"time"
)

// Figure is one measured value with what it should be.
type Figure struct {
	Name   string
	Value  float64
	Unit   string
	Target float64
	Least  bool // the target is a lower limit
}

// String is the line that programs read.
func (f Figure) String() string {
	relation, reached := "<=", f.Value <= f.Target
	if f.Least {
		relation, reached = ">=", f.Value >= f.Target
	}
	verdict := "short"
	if reached {
		verdict = "ok"
	}
	return fmt.Sprintf("BENCH %s %.2f %s target%s%.4g %s", f.Name, f.Value, f.Unit, relation, f.Target, verdict)
}

// Median is the middle of several measurements: one that was disturbed does not count.
func Median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// Percentile is the value that so many of a hundred measurements do not exceed.
func Percentile(values []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max((len(sorted)*percent+99)/100-1, 0)]
}

// Mebibyte is the unit of memory in reports.
const Mebibyte = 1 << 20
