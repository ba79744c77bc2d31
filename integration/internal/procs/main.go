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
	controller func() (path string, err error) // the same

	postgres postgres

	mu      sync.Mutex
	running map[*Process]bool
}

// Main is a TestMain: it makes the kit and runs the tests. It does not return. In a
// copy of the test binary that was started to be an etcd server or its proxy, it is that.
func Main(m *testing.M, kit **Kit) {
	if config, asked := os.LookupEnv(serveEnv); asked {
		os.Exit(serve(config))
	}
	if args, asked := os.LookupEnv(proxyEnv); asked {
		os.Exit(proxy(args))
	}
	flag.Parse()
	pace.RunMore(atOnce)
	os.Exit(run(m, kit))
}

// atOnce is how many parallel tests run at a time: they mostly wait, for leases to run out and for
// processes to start, so that two cores do for more than two. It is half of that on a slow machine.
const atOnce = 8

func run(m *testing.M, kit **Kit) int {
	dir, err := os.MkdirTemp("", "goverse-integration-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir) // nothing can be done about it
	k := &Kit{running: map[*Process]bool{},
		goversed:   sync.OnceValues(func() (string, error) { return build(dir, daemonPackage) }),
		controller: sync.OnceValues(func() (string, error) { return build(dir, controllerPackage) })}
	*kit = k
	code := m.Run()
	if err := k.postgres.close(); err != nil {
		code = complain(err)
	}
	k.mu.Lock()
	for p := range k.running {
		code = complain(fmt.Errorf("%s (process %d) outlived its test", p.name, p.Pid()))
	}
	k.mu.Unlock()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			code = complain(err)
		}
	}
	return code
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
