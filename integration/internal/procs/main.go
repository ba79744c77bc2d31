//go:build unix

package procs

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// Kit starts processes. It is safe for concurrent use.
type Kit struct {
	goversed func() (path string, err error) // builds it at the first call

	mu      sync.Mutex
	drawn   map[int]bool // ports
	running map[*Process]bool
}

// Main is a TestMain: it makes the kit and runs the tests. It does not return. In a
// copy of the test binary that was started to be an etcd server, it is that server.
func Main(m *testing.M, kit **Kit) {
	if config, asked := os.LookupEnv(serveEnv); asked {
		os.Exit(serve(config))
	}
	flag.Parse()
	os.Exit(run(m, kit))
}

func run(m *testing.M, kit **Kit) int {
	dir, err := os.MkdirTemp("", "goverse-integration-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir) // nothing can be done about it
	k := &Kit{drawn: map[int]bool{}, running: map[*Process]bool{},
		goversed: sync.OnceValues(func() (string, error) { return build(dir) })}
	*kit = k
	code := m.Run()
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
