package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
)

const (
	// leastHeap names the size in bytes up to which a program's heap may grow before garbage is collected.
	leastHeap = "KUBE_LEAST_HEAP"
	// runtimeLeastHeap is what the Go runtime lets it grow to, at 100 percent.
	runtimeLeastHeap = 4 << 20
	liveHeap         = "/gc/heap/live:bytes"
)

// tuner keeps a small GOGC, which makes an idle program thrifty, from slowing down its start: then nearly all that is
// allocated is garbage soon, and the smaller the heap still is, the more often it would be collected. The heap grows to a
// least size first, and from there on by the percentage of GOGC.
type tuner struct{ least, percent uint64 }

// tune starts to, where the program is told to.
func tune() {
	least, err := strconv.ParseUint(os.Getenv(leastHeap), 10, 63)
	percent := debug.SetGCPercent(100)
	if err != nil || percent <= 0 {
		debug.SetGCPercent(percent)
		return
	}
	t := &tuner{least: least, percent: uint64(percent)}
	t.set(runtimeLeastHeap)
	t.afterCollection()
}

// cycle is garbage as soon as it is made, and found to be in the next collection.
type cycle struct{ *tuner }

// afterCollection sees to it that the percentage is set anew after every collection.
func (t *tuner) afterCollection() {
	runtime.SetFinalizer(&cycle{t}, func(c *cycle) {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		if sample[0].Value.Kind() == metrics.KindUint64 {
			c.set(sample[0].Value.Uint64())
		}
		c.afterCollection()
	})
}

// set sets the percentage by which a heap of which so much is live may grow.
func (t *tuner) set(live uint64) {
	percent := t.percent
	if live > 0 && t.least > live {
		percent = max(percent, (t.least-live)*100/live)
	}
	debug.SetGCPercent(int(percent))
}
