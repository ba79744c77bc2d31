// Package leak finds goroutines that outlive the code that started them: those of one label, and those that
// still run after a package's tests.
package leak

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"
)

// labelKey is the pprof label that every goroutine started in Labelled inherits.
const labelKey = "goverse-leak"

// checkInterval is the time between two checks.
const checkInterval = 10 * time.Millisecond

// Labelled runs f in such a way that Stacks finds every goroutine started in it.
func Labelled(label string, f func()) {
	pprof.Do(context.Background(), pprof.Labels(labelKey, label), func(context.Context) { f() })
}

// Stacks returns the stacks of the goroutines with the label, or "" if there are none.
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

// AwaitNone waits until look returns "". After patience it returns the last result of look.
func AwaitNone(look func() string, patience time.Duration) string {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(checkInterval)
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
