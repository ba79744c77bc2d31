//go:build unix

package trial

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leaktest"
)

// programEnv makes the test's binary the example itself.
const programEnv = "GOVERSE_TEST_EXAMPLE"

// Main is a TestMain: it runs the tests and looks for goroutines that they left, or is the
// program if Program has started it.
func Main(m *testing.M, program func()) {
	if os.Getenv(programEnv) != "" {
		program()
		return
	}
	leaktest.RunMore()
	goleak.VerifyTestMain(m)
}

// Program starts the program once more, as a process of its own that ends with the test. If the
// test has failed, what the process said is logged.
func Program(t *testing.T, args ...string) *fault.Process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), programEnv+"=1")
	p, err := fault.StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		if t.Failed() {
			t.Logf("process %d, %q, said:\n%s", p.Pid(), args, p.Output())
		}
	})
	return p
}

// Stop has those that still run end in order.
func Stop(t *testing.T, programs ...*fault.Process) {
	t.Helper()
	for _, p := range programs {
		if !p.Running() {
			continue
		}
		_, err := p.Signal(syscall.SIGTERM)
		require.NoError(t, err)
		Succeeds(t, p)
	}
}

// StopWithin has a program end in order, before the time is over.
func StopWithin(t *testing.T, limit time.Duration, p *fault.Process) {
	t.Helper()
	at, err := p.Signal(syscall.SIGTERM)
	require.NoError(t, err)
	Succeeds(t, p)
	require.Less(t, time.Since(at), limit, "from SIGTERM to the end")
}

// Succeeds waits for the program's end, which is to be a good one.
func Succeeds(t *testing.T, p *fault.Process) {
	t.Helper()
	code, err := p.Exit(etcdtest.Context(t))
	require.NoError(t, err)
	require.Zero(t, code, p.Output())
}

// Meanwhile has n goroutines do something, each once in every interval, until end, which waits
// for them.
func Meanwhile(t *testing.T, n int, every time.Duration, do func(ctx context.Context) error) (end func()) {
	t.Helper()
	ctx, stop := etcdtest.Context(t), make(chan struct{})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			again := time.NewTicker(every)
			defer again.Stop()
			for {
				select {
				case <-again.C:
					assert.NoError(t, do(ctx))
				case <-stop:
					return
				}
			}
		})
	}
	end = sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
	t.Cleanup(end)
	return end
}
