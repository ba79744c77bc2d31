package testbed

import (
	"context"

	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
)

// Locks is a process that uses locks.
type Locks struct {
	*Process
	*etcdlock.Registry
}

// StartLocks starts a process with its own session and connection. It is stopped when the test ends.
func StartLocks(s *TestBed) *Locks {
	s.Helper()
	p := &Locks{}
	p.Process = s.Start(func(q *Process) (func(context.Context), error) {
		queues, err := NewEngine(q, s.Keys.Locks())
		if err != nil {
			return nil, err
		}
		p.Registry = etcdlock.NewRegistry(queues.Queues(s.Keys.Locks()), s.Name())
		return queues.Run, nil
	})
	return p
}
