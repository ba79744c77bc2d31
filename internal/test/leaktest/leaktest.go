// Package leaktest is the TestMain of packages whose tests start several members of etcd, or wait a lot.
package leaktest

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/test/pace"
)

// patience is twice the read time-out of etcd's peer connections, after which the last goroutines of a closed
// cluster end (see embedetcd.Cluster.Close).
const patience = 10 * time.Second

// Main runs the tests, and fails them if a goroutine outlives them by more than etcd's members need. It does
// not return. It is goleak.VerifyTestMain with more patience.
func Main(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(patience)
	// goleak itself looks again and again for a while, and then gives up.
	for code == 0 {
		leak := goleak.Find()
		if leak == nil {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, leak)
			code = 1
		}
	}
	os.Exit(code)
}

// RunMore lets four parallel tests run at a time on a machine of fewer cores, unless it is a slow one: for packages
// whose tests wait for leases and time-outs more than they compute. A flag -parallel counts instead. Call it first in
// TestMain.
func RunMore() {
	flag.Parse()
	pace.RunMore(waiting)
}

const waiting = 4
