package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

// waiter is a call of mirror.Mirror.Wait.
type waiter struct {
	met  func(s *state.Snapshot) bool
	then func(met bool)
}

// wait reports when a snapshot meets a condition, or that none did for so long.
func (m *mirror) wait(timeout time.Duration, met func(s *state.Snapshot) bool, then func(met bool)) {
	if m.snapshot != nil && met(m.snapshot) {
		m.p.soon(func() { then(true) })
		return
	}
	x := &waiter{met: met, then: then}
	m.waiters = append(m.waiters, x)
	m.p.after(timeout, func() {
		if x.then != nil {
			m.waiters = drop(m.waiters, x)
			x.end(false)
		}
	})
}

func (x *waiter) end(met bool) {
	then := x.then
	x.then = nil
	then(met)
}

// meet notifies those who waited for s.
func (m *mirror) meet(s *state.Snapshot) {
	for i := 0; i < len(m.waiters); i++ {
		x := m.waiters[i]
		if x.met(s) {
			m.waiters = drop(m.waiters, x)
			i--
			m.p.soon(func() {
				if x.then != nil {
					x.end(true)
				}
			})
		}
	}
}
