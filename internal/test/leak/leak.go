// Package leak finds goroutines that outlive what began them: those of one label, and whatever runs when a
// package's tests are over.
package leak

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"
)

// labelKey is the pprof label that every goroutine begun in Labelled inherits.
const labelKey = "goverse-leak"

// interval is between two looks.
const interval = 10 * time.Millisecond

// Labelled runs f so that every goroutine begun in it can be found again by Stacks.
func Labelled(label string, f func()) {
	pprof.Do(context.Background(), pprof.Labels(labelKey, label), func(context.Context) { f() })
}

// Stacks are those of the goroutines with that label, "" if there are none.
func Stacks(label string) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return err.Error()
	}
	var out []string
	for block := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(block, fmt.Sprintf("%q:%q", labelKey, label)) {
			out = append(out, block)
		}
	}
	return strings.Join(out, "\n\n")
}

// AwaitNone waits until look finds nothing, and returns what it found at the end of patience.
func AwaitNone(look func() string, patience time.Duration) string {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		left := look()
		if left == "" {
			return ""
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return left
		}
	}
}
