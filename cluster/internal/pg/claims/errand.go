package claims

import (
	"context"
	"slices"
	"time"
)

// errand is a short request on the main connection, between two heartbeats.
type errand struct {
	sql  string
	args []any
	done chan errandResult // has room for the result
}

type errandResult struct {
	ok  bool
	err error
}

// errandTimeout limits an errand, which delays the next heartbeat.
func (c Config) errandTimeout() time.Duration { return c.Deadline / 10 }

// runErrand runs a query that returns true or false on the main connection. If ctx ends before the query is sent, it is
// not run.
func (s *Session) runErrand(ctx context.Context, sql string, args ...any) (bool, error) {
	e := &errand{sql, args, make(chan errandResult, 1)}
	s.mu.Lock()
	s.errands = append(s.errands, e)
	if s.endWait != nil {
		s.endWait()
	}
	s.mu.Unlock()
	select {
	case r := <-e.done:
		return r.ok, r.err
	case <-s.ctx.Done():
		return false, context.Cause(s.ctx)
	case <-ctx.Done():
	}
	s.mu.Lock()
	before := len(s.errands)
	s.errands = slices.DeleteFunc(s.errands, func(other *errand) bool { return other == e })
	removed := len(s.errands) < before
	s.mu.Unlock()
	if removed {
		return false, context.Cause(ctx)
	}
	select {
	case r := <-e.done: // soon
		return r.ok, r.err
	case <-s.ctx.Done():
		return false, context.Cause(s.ctx)
	}
}

// nextErrand returns the next errand, or nil. Then end will be called when there is one.
func (s *Session) nextErrand(end context.CancelFunc) *errand {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errands) == 0 {
		s.endWait = end
		return nil
	}
	e := s.errands[0]
	s.errands = s.errands[1:]
	return e
}

// run runs an errand.
func (e *errand) run(s *Session) {
	ctx, cancel := context.WithTimeout(s.ctx, s.k.cfg.errandTimeout())
	defer cancel()
	var r errandResult
	r.err = s.main.QueryRow(ctx, e.sql, e.args...).Scan(&r.ok)
	e.done <- r
}
