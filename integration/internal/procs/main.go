//go:build unix

package procs

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/test/pace"
)

// Kit starts processes. It is safe for concurrent use.
type Kit struct {
	goversed   func() (path string, err error) // builds it at the first call
	controller func() (path string, err error) // likewise

	postgres postgres

	mu      sync.Mutex
	running map[*Process]bool
}

// Main is a TestMain. It creates the kit, runs the tests, and does not return. In a copy of the test binary
// that was started as an etcd server or as its proxy, it runs that.
func Main(m *testing.M, kit **Kit) {
	if config, asked := os.LookupEnv(serveEnv); asked {
		os.Exit(runEtcd(config))
	}
	if args, asked := os.LookupEnv(proxyEnv); asked {
		os.Exit(runProxy(args))
	}
	flag.Parse()
	pace.SetParallel(parallelTests)
	os.Exit(runTests(m, kit))
}

// parallelTests is the number of tests that run in parallel. They mostly wait, for leases to expire and processes to
// start, so two cores suffice for more than two. On a slow machine it is half of that.
const parallelTests = 8

func runTests(m *testing.M, kit **Kit) int {
	dir, err := os.MkdirTemp("", "goverse-integration-")
	if err != nil {
		return reportError(err)
	}
	defer os.RemoveAll(dir) // nothing can be done about it
	k := &Kit{running: map[*Process]bool{},
		goversed:   sync.OnceValues(func() (string, error) { return buildProgram(dir, daemonPackage) }),
		controller: sync.OnceValues(func() (string, error) { return buildProgram(dir, controllerPackage) })}
	*kit = k
	code := m.Run()
	if err := k.postgres.close(); err != nil {
		code = reportError(err)
	}
	k.mu.Lock()
	for p := range k.running {
		code = reportError(fmt.Errorf("%s (process %d) outlived its test", p.name, p.Pid()))
	}
	k.mu.Unlock()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			code = reportError(err)
		}
	}
	return code
}

func reportError(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
