package elections_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/testbed"
	"github.com/goverse/goverse/internal/wait"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// testBed is three processes, and a client without faults.
type testBed struct {
	*testbed.TestBed
	ctx         context.Context
	keys        state.Queues
	client      *clientv3.Client
	preferAfter time.Duration
	final       func(error) bool
	a, b, c     *process
}

type process struct {
	*testbed.Process
	*elections.Elections
}

// newTestBed returns a test bed in which no session should be lost.
func newTestBed(t *testing.T) *testBed {
	return newTestBedWith(t, testbed.LongTTL, 100*time.Millisecond)
}

func newTestBedWith(t *testing.T, ttl, preferAfter time.Duration) *testBed {
	t.Parallel()
	s := &testBed{TestBed: testbed.New(t, ttl), preferAfter: preferAfter}
	s.ctx, s.keys, s.client = s.Ctx, s.Keys.Elections(), s.Client
	s.a, s.b, s.c = s.start("a:1"), s.start("b:1"), s.start("c:1")
	return s
}

func (s *testBed) start(address string) *process {
	s.Helper()
	p := &process{}
	p.Process = s.Start(func(q *testbed.Process) (func(context.Context), error) {
		queues, err := testbed.NewEngine(q, s.keys)
		if err != nil {
			return nil, err
		}
		p.Elections, err = elections.New(elections.Config{Queues: queues.Queues(s.keys),
			Address: address, WorkTimeout: 500 * time.Millisecond, PreferAfter: s.preferAfter, IsFinal: s.final})
		return wait.RunAll(queues.Run, p.Run), err
	})
	return p
}

// join makes a process stand, and returns when all see it in the queue.
func (s *testBed) join(p *process, name string, opts ...leaderelection.StandOption) *elections.Election {
	s.Helper()
	before := len(s.queue(name))
	e, err := p.Stand(name, opts...)
	require.NoError(s, err)
	if len(opts) == 0 {
		s.queued(name, e, before+1)
	}
	return e
}

// observe makes a process follow an election.
func (s *testBed) observe(p *process, name string) *elections.Election {
	s.Helper()
	e, err := p.Observe(name)
	require.NoError(s, err)
	return e
}

// prefer makes a process stand with a priority, and returns when it is in the queue.
func (s *testBed) prefer(p *process, name string, priority int) *elections.Election {
	s.Helper()
	before := len(s.queue(name))
	e := s.join(p, name, leaderelection.Priority(priority))
	s.queued(name, e, before+1)
	return e
}

func (s *testBed) queued(name string, e *elections.Election, n int) {
	s.Helper()
	s.eventually(func() bool { return len(s.queue(name)) >= n && len(e.Queue()) >= n }, "it is queued")
}

func (s *testBed) queue(name string) []string {
	s.Helper()
	return s.KeysWithPrefix(s.keys.QueuePrefix(name))
}

func (s *testBed) eventually(cond func() bool, what string) { s.Helper(); s.Eventually(cond, what) }

// leads waits until this node leads the election, and returns the term.
func (s *testBed) leads(e *elections.Election) leaderelection.Term {
	s.Helper()
	var t *elections.Term
	s.eventually(func() bool { t = e.Term(); return t != nil }, "it leads")
	require.True(s, e.IsLeader())
	return t
}

func requireLeader(t *testing.T, address string, token int64, l leaderelection.Leader) {
	t.Helper()
	require.Equal(t, address, l.Address)
	require.Equal(t, token, l.Token)
}

// watchValue returns the channel of the election's Watch, which must not fail.
func watchValue(t *testing.T, e *elections.Election, ctx context.Context) <-chan leaderelection.Leader {
	t.Helper()
	seen, err := e.Watch(ctx)
	require.NoError(t, err)
	return seen
}
