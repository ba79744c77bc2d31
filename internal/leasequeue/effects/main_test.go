package effects_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue/effects"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/testbed"
)

// testBed is two processes, and a client without faults.
type testBed struct {
	*testbed.TestBed
	ctx    context.Context
	keys   state.Keys
	client *clientv3.Client
	a, b   *process
}

// process holds the parts of one process.
type process struct {
	*testbed.Process
	*effects.Effects
}

func newTestBed(t *testing.T, ttl time.Duration) *testBed {
	t.Helper()
	t.Parallel()
	s := &testBed{TestBed: testbed.New(t, ttl)}
	s.ctx, s.keys, s.client = s.Ctx, s.Keys, s.Client
	s.a, s.b = s.start("a:1"), s.start("b:1")
	return s
}

func (s *testBed) start(owner string) *process {
	s.Helper()
	p := &process{}
	p.Process = s.Start(func(q *testbed.Process) (func(context.Context), error) {
		queues, err := testbed.NewEngine(q, s.keys.Effects())
		if err != nil {
			return nil, err
		}
		p.Effects, err = effects.New(effects.Config{Queues: queues.Queues(s.keys.Effects()), Keys: s.keys, Owner: owner})
		return queues.Run, err
	})
	return p
}
