package callproc

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/reexec"
)

// TestMain makes this binary the processes that a test starts, and checks for leaked goroutines.
func TestMain(m *testing.M) {
	reexec.ServeAndExit(etcdproc.Serve, Serve)
	goleak.VerifyTestMain(m)
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// started stops the process at the end of the test, after those that were started later.
func started[P interface{ Stop() error }](t *testing.T) func(p P, err error) P {
	t.Helper()
	return func(p P, err error) P {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Stop()) })
		return p
	}
}

func server(t *testing.T) func(*reexec.Process, error) *reexec.Process {
	return started[*reexec.Process](t)
}

func client(t *testing.T) func(*Caller, error) *Caller { return started[*Caller](t) }
