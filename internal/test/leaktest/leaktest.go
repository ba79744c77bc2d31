// Package leaktest has the TestMain functions of packages with tests that start several members of etcd, or
// wait a lot.
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

// Main runs the tests and fails them if a goroutine outlives them by more than etcd's members need. It does not
// return. It is goleak.VerifyTestMain with more patience.
func Main(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(patience)
	// goleak itself retries for a while and then gives up.
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

// SetParallel lets eight parallel tests run at a time on a machine with fewer cores, or four (see
// pace.ParallelTests). It is for packages with tests that wait for leases and time-outs more than they compute. A
// -parallel flag takes precedence. Call it first in TestMain.
func SetParallel() {
	flag.Parse()
	pace.SetParallel(waitingTests)
}

const waitingTests = 8
