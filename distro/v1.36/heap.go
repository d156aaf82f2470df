package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"time"
)

const (
	// thriftyPercent names the GOGC that a program shall have once it has started. GOGC itself is what it starts with.
	thriftyPercent = "KUBE_THRIFTY_GOGC"
	// startTime is what a start takes on a busy machine.
	startTime = 30 * time.Second
)

// becomeThrifty makes a program that has started spend work to save memory. While it starts that would cost half as much
// time again: nearly all that it allocates then is garbage soon.
func becomeThrifty() {
	percent, err := strconv.Atoi(os.Getenv(thriftyPercent))
	if err != nil || percent <= 0 {
		return
	}
	time.AfterFunc(startTime, func() {
		debug.SetGCPercent(percent)
		debug.FreeOSMemory()
	})
}
