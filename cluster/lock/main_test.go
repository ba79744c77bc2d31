package lock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryConforms(t *testing.T) {
	locktest.Run(t, func(*testing.T) (a, b lock.LockRegistry) {
		m := &lock.Memory{}
		return m, m
	})
}
