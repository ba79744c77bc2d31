package lock_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/lock/locktest"
	"github.com/goverse/goverse/internal/testkit/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is what one process has.
type process struct {
	*testbed.Process
	*lock.Etcd
}

// start starts one, with a session and a connection of its own; it is stopped with the test.
func start(s *testbed.Scene) *process {
	s.Helper()
	p := &process{}
	p.Process = s.Start(func(q *testbed.Process) (func(context.Context), error) {
		var err error
		p.Etcd, err = lock.NewEtcd(lock.Config{Client: q.Client, Keeper: q.Keeper, Queues: s.Keys.Locks(), Owner: s.Name(), RequestTimeout: testbed.RequestTimeout})
		return p.Run, err
	})
	return p
}

func TestMemoryConforms(t *testing.T) {
	locktest.Run(t, func(*testing.T) (a, b lock.LockRegistry) {
		m := &lock.Memory{}
		return m, m
	})
}

func TestEtcdConforms(t *testing.T) {
	s := testbed.New(t, testbed.Short)
	locktest.Run(t, func(t *testing.T) (a, b lock.LockRegistry) {
		return start(s.In(t)), start(s.In(t))
	})
}

func TestOneProcessConforms(t *testing.T) {
	s := testbed.New(t, testbed.Short)
	locktest.Run(t, func(t *testing.T) (a, b lock.LockRegistry) {
		one := start(s.In(t))
		return one, one
	})
}
