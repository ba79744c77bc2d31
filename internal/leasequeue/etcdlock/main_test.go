package etcdlock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/lock/locktest"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/testbed"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// process holds the parts of one process.
type process = testbed.Locks

// start starts a process.
var start = testbed.StartLocks

func TestEtcdConforms(t *testing.T) {
	s := testbed.New(t, testbed.ShortTTL)
	locktest.Run(t, func(t *testing.T) (a, b lock.LockRegistry) {
		return start(s.ForSubtest(t)), start(s.ForSubtest(t))
	})
}

func TestOneProcessConforms(t *testing.T) {
	s := testbed.New(t, testbed.ShortTTL)
	locktest.Run(t, func(t *testing.T) (a, b lock.LockRegistry) {
		one := start(s.ForSubtest(t))
		return one, one
	})
}
