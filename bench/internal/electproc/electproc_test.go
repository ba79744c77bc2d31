package electproc

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/reexec"
	"github.com/goverse/goverse/clustertest/fault"
)

// TestMain makes this binary the etcd that a test starts, and checks for leaked goroutines.
func TestMain(m *testing.M) {
	reexec.ServeAndExit(etcdproc.Serve)
	silenceLibraries()
	goleak.VerifyTestMain(m)
}

// Every program does the whole job: the next copy works when the first one is cut off, the first one has ended its work
// by then or soon after, works again once the next one is told to stop, and leaves nothing behind.
func TestEveryProgramDoesTheWholeJob(t *testing.T) {
	etcd, err := etcdproc.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, etcd.Stop()) })
	for i, p := range Programs() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			relay, err := fault.NewRelay(etcd.Endpoint)
			require.NoError(t, err)
			t.Cleanup(func() { _ = relay.Close() })
			prefix := fmt.Sprintf("/job-%d", i)
			first := start(t, p, relay.Address(), prefix, "first")
			first.expect(t, Queued, Leads)
			next := start(t, p, etcd.Endpoint, prefix, "next")
			next.expect(t, Queued)
			relay.Blackhole(fault.Both)
			next.expect(t, Leads)
			first.expect(t, Stopped)
			require.NoError(t, relay.Heal())
			if p.Name == "concurrency.Election" { // a new session
				first.expect(t, Queued)
			}
			next.stop(t)
			next.expect(t, Stopped)
			first.expect(t, Leads)
			first.stop(t)
			first.expect(t, Stopped)
		})
	}
}

// copyOf is a running copy of a program.
type copyOf struct {
	said   chan string
	cancel context.CancelFunc
	ended  chan error
}

func start(t *testing.T, p Program, endpoint, prefix, id string) copyOf {
	ctx, cancel := context.WithCancel(context.Background())
	c := copyOf{make(chan string, 10), cancel, make(chan error, 1)}
	go func() { // ends with ctx
		c.ended <- p.Run(ctx, Job{Etcd: endpoint, Prefix: prefix, ID: id, TTL: 2 * time.Second,
			Queued: func() { c.said <- Queued },
			Work: func(ctx context.Context) {
				c.said <- Leads
				<-ctx.Done()
				c.said <- Stopped
			}})
	}()
	t.Cleanup(cancel)
	return c
}

func (c copyOf) expect(t *testing.T, words ...string) {
	t.Helper()
	for _, want := range words {
		select {
		case got := <-c.said:
			require.Equal(t, want, got)
		case <-time.After(20 * time.Second):
			t.Fatalf("the copy has not said %q", want)
		}
	}
}

func (c copyOf) stop(t *testing.T) {
	t.Helper()
	c.cancel()
	select {
	case err := <-c.ended:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the copy does not end")
	}
}

func TestLinesCountsOnlyCode(t *testing.T) {
	for _, p := range Programs() {
		lines, err := p.Lines()
		require.NoError(t, err)
		text, err := os.ReadFile(p.file)
		require.NoError(t, err)
		code := 0
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				code++
			}
		}
		require.Equal(t, code, lines, p.file)
	}
}
