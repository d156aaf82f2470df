// Package k8shost measures how fast a k8shost server starts, what it takes when idle, and how that compares with
// `kubeadm init` of the same Kubernetes version on the same machine in the same run. `make bench-k8shost` runs it. A
// missed target is reported, never a failure: the numbers depend on the machine.
package k8shost

import (
	"fmt"
	"slices"
	"time"
)

// figure is one measured value with what it should be.
type figure struct {
	name   string
	value  float64
	unit   string
	target float64
	least  bool // the target is a lower limit
}

// String is the line that programs read.
func (f figure) String() string {
	relation, reached := "<=", f.value <= f.target
	if f.least {
		relation, reached = ">=", f.value >= f.target
	}
	verdict := "short"
	if reached {
		verdict = "ok"
	}
	return fmt.Sprintf("BENCH %s %.1f %s target%s%g %s", f.name, f.value, f.unit, relation, f.target, verdict)
}

// median is the middle of several measurements: one that was disturbed does not count.
func median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

const mebibyte = 1 << 20
