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

// programEnv names the environment variable that makes the test binary run the example itself.
const programEnv = "GOVERSE_TEST_EXAMPLE"

// Main is a TestMain. It runs the tests and checks for goroutines that they leaked. In a process started by
// [Program] it runs program instead.
func Main(m *testing.M, program func()) {
	if os.Getenv(programEnv) != "" {
		program()
		return
	}
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// Program starts the example as a process of its own, which ends with the test. If the test fails, the output
// of the process is logged.
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

// Stop sends SIGTERM to those programs that still run and waits until each has exited with status 0.
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

// StopWithin stops a program with SIGTERM and requires that it exits with status 0 within limit.
func StopWithin(t *testing.T, limit time.Duration, p *fault.Process) {
	t.Helper()
	at, err := p.Signal(syscall.SIGTERM)
	require.NoError(t, err)
	Succeeds(t, p)
	require.Less(t, time.Since(at), limit, "from SIGTERM to the end")
}

// Succeeds waits until the program exits and requires exit status 0.
func Succeeds(t *testing.T, p *fault.Process) {
	t.Helper()
	code, err := p.Exit(etcdtest.Context(t))
	require.NoError(t, err)
	require.Zero(t, code, p.Output())
}

// Meanwhile runs do in n goroutines, each once in every interval. The returned function ends them and waits for
// them.
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
