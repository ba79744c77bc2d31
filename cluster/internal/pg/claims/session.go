package claims

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/wait"
)

// Session is one session: a connection that holds an advisory lock, a row with a counter that its heartbeats raise, and
// the deadline up to which its claims may be relied on. All methods are safe for concurrent use.
type Session struct {
	k    *Keeper
	id   int64
	main *connection // heartbeats and notifications

	period atomic.Pointer[deadline.Claim]
	ctx    context.Context // ends with the session; its cause is a session.LostError or ErrStopped
	cancel context.CancelCauseFunc
	// finished is closed when the session's goroutines have ended, and its claims.
	finished chan struct{}

	requests wait.Signal // there are requests
	polls    wait.Signal // claims have begun to wait
	hints    wait.Signal // claims may have been granted

	outage outage // of the connections for commands and of the watcher

	refused error // the error of the last heartbeat; of keepAlive

	mu      sync.Mutex
	errands []*errand          // requests for the main connection
	endWait context.CancelFunc // ends its wait for a notification
	queue   []*request         // requests to send
	claims  map[int64]*Claim   // by number, until the server has released them
	seq     int64
	hinted  map[int64]bool       // the numbers of claims that may have been granted
	locked  map[string]time.Time // until when names are left alone: another program has locked their rows
}

// openSession opens a session on a connection that was probed.
func (k *Keeper) openSession(ctx context.Context, main *connection) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.requestTimeout())
	defer cancel()
	s := &Session{k: k, id: rand.Int64N(1<<62) + 1, main: main, requests: wait.NewSignal(), polls: wait.NewSignal(),
		hints: wait.NewSignal(), claims: map[int64]*Claim{}, hinted: map[int64]bool{}, locked: map[string]time.Time{},
		finished: make(chan struct{})}
	// Heartbeats must be confirmed by the synchronous standbys: an old primary that is cut off from them then confirms
	// none.
	_, err := main.Exec(ctx, `SELECT pg_advisory_lock($1), set_config('lock_timeout', '0', false),
		set_config('synchronous_commit', CASE WHEN v IN ('off', 'local') THEN 'on' ELSE v END, false)
		FROM current_setting('synchronous_commit') v`, s.id)
	if err == nil {
		_, err = main.Exec(ctx, fmt.Sprintf("LISTEN goverse_%d; LISTEN "+queuesChannel, s.id),
			pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil {
		return nil, err
	}
	sent := k.cfg.Clock()
	_, err = main.Exec(ctx, k.sql.openSession, s.id, k.cfg.Deadline.Microseconds(), k.cfg.Owner, rand.Int64())
	if err != nil {
		return nil, err
	}
	period := deadline.NewClaim(sent, k.cfg.Deadline)
	s.period.Store(&period)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s, nil
}

// Valid reports whether the session's claims may be relied on at this instant. It reads atomics and the clock.
func (s *Session) Valid() bool {
	return s.ctx.Err() == nil && s.period.Load().Valid(s.k.cfg.Clock())
}

// endCause returns the reason for the end of the session, or nil while it lasts. If the deadline has
// passed, it ends the session.
func (s *Session) endCause() error {
	if s.ctx.Err() == nil && !s.Valid() {
		s.end(session.ReasonExpired, nil)
	}
	return context.Cause(s.ctx)
}

// end ends the session, unless it has ended.
func (s *Session) end(reason session.Reason, err error) {
	s.cancel(&session.LostError{Reason: reason, Err: err})
}

// keepAlive sends heartbeats and receives notifications until the session ends.
func (s *Session) keepAlive() {
	every := s.k.cfg.beatEvery()
	due := s.period.Load().RenewedAt().Add(every)
	for s.ctx.Err() == nil {
		now := s.k.cfg.Clock()
		if left := now.Until(due); left > 0 {
			s.awaitNotification(left)
			continue
		}
		due = now.Add(every)
		s.beat(now)
	}
}

// awaitNotification waits for a notification or an errand, and passes it on. It ends the session if the connection has
// ended.
func (s *Session) awaitNotification(atMost time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, atMost)
	defer cancel()
	if e := s.nextErrand(cancel); e != nil {
		e.run(s)
		return
	}
	n, err := s.main.WaitForNotification(ctx)
	switch {
	case err == nil:
		if n.Channel == queuesChannel {
			s.k.requestRead(n.Payload)
		} else {
			s.recordNotification(n.Payload)
		}
	case s.main.IsClosed() || ctx.Err() == nil:
		s.end(session.ReasonConnectionLost, err)
	}
}

// errUnreplicated is the reason why a confirmed heartbeat does not count. PostgreSQL confirms a commit with a warning
// if another program has cancelled its wait for the synchronous standbys.
var errUnreplicated = errors.New("the heartbeat was committed without the synchronous standbys: another program " +
	"has cancelled its wait for them")

// beat sends a heartbeat at now. No answer by the deadline ends the session.
func (s *Session) beat(now deadline.Instant) {
	period := *s.period.Load()
	left := now.Until(period.EndsAt())
	switch {
	case left <= 0 && s.refused != nil:
		s.end(session.ReasonExpired, s.refused)
		return
	case left <= 0:
		s.end(session.ReasonPaused, nil)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, left)
	defer cancel()
	var pid int32
	s.main.warned.Store(false)
	err := s.main.QueryRow(ctx, s.k.sql.beat, s.id).Scan(&pid)
	answered := s.k.cfg.Clock()
	next := period.OnRenewal(now, answered)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		s.end(session.ReasonRevoked, errors.New("another process ended the session, or its row was deleted"))
	case pg.CodeOf(err) == pg.CodeNoTable: // it was dropped; in a new one, others may be granted the same
		s.end(session.ReasonRevoked, err)
	case err != nil && ctx.Err() != nil:
		s.end(session.ReasonExpired, err)
	case err != nil && !s.main.IsClosed():
		s.refused = err // the next one may be confirmed
	case s.main.warned.Load():
		s.refused = errUnreplicated
	case err != nil:
		s.end(session.ReasonConnectionLost, err)
	case pid != s.main.pid:
		s.end(session.ReasonConnectionLost, ErrPooled)
	case next.Ended(answered):
		s.end(session.ReasonExpired, nil)
	default:
		s.refused = nil
		s.period.Store(&next)
	}
}
