package clustertest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
)

// recorder is a testing.TB outside a test, for the example, and for tests in which the kit fails a test.
type recorder struct {
	testing.TB
	cleanups []func()
	failures []string
}

func newT() *recorder { return &recorder{} }

type failedNow struct{}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool     { return len(r.failures) > 0 }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(failedNow{})
}

// end runs the cleanups, as at the end of a test.
func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	r.cleanups = nil
}

// run runs f as a test and returns its failures.
func run(f func(t *recorder)) []string {
	r := newT()
	func() {
		defer func() {
			if p := recover(); p != nil && p != (failedNow{}) {
				panic(p)
			}
		}()
		f(r)
	}()
	r.end()
	return r.failures
}

func TestWaitFailsWithEveryNodesStatus(t *testing.T) {
	failures := run(func(t *recorder) {
		c := clustertest.New(t, 2, clustertest.WithPatience(2*time.Second))
		c.Within(50*time.Millisecond, func() bool { return false }, "pigs fly")
	})
	require.Len(t, failures, 1)
	require.Contains(t, failures[0], "pigs fly")
	require.Regexp(t, `node 0 127\.0\.0\.1:\d+: leader`, failures[0])
	require.Regexp(t, `node 1 127\.0\.0\.1:\d+: candidate`, failures[0])
}

func TestLeftKeyFailsTheTest(t *testing.T) {
	failures := run(func(t *recorder) {
		c := clustertest.New(t, 1)
		_, err := c.Client().Put(context.Background(), clustertest.Prefix+"/leader/forgotten", "x")
		require.NoError(t, err)
	})
	require.Len(t, failures, 1)
	require.Contains(t, failures[0], "forgotten")
}

func TestLeftGoroutineFailsTheTest(t *testing.T) {
	t.Parallel()
	// A goroutine that a node's own code starts, and that the test never ends.
	release := make(chan struct{})
	defer close(release)
	failures := run(func(t *recorder) {
		left := make(chan struct{})
		begin := sync.OnceFunc(func() {
			go func() { <-release }()
			close(left)
		})
		clustertest.New(t, 1, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
			cfg.Sharding.OnAcquire = func(context.Context, int, int64) { begin() }
		}))
		<-left
	})
	require.Len(t, failures, 1)
	require.Contains(t, failures[0], "goroutines left behind")
}
