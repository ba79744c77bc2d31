package cluster

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

// ErrNoSession: this node has no session at the moment; it opens one as soon as etcd answers.
var ErrNoSession = errors.New("this node has no session at the moment")

// Session is one session of this node: an etcd lease with its safe deadline, to attach keys of your own
// to. A session that is lost does not come back; the node opens another one. All methods are safe for
// concurrent use, and none blocks.
type Session struct {
	s   *etcdsession.Session // nil: there is none
	err error                // why
}

// Session is the node's session at this instant. It is never nil: while there is none, its ID is 0, it is
// not valid, its context has ended, and Err says why: ErrNotStarted, ErrStopped or ErrNoSession.
func (c *Cluster) Session() *Session {
	p, err := c.running()
	if err != nil {
		return &Session{err: err}
	}
	if s := p.keeper.Current(); s != nil {
		return &Session{s: s}
	}
	return &Session{err: ErrNoSession}
}

// WaitForSession blocks until the node has a session that is valid. Errors are ctx's cause, ErrNotStarted
// and ErrStopped.
func (c *Cluster) WaitForSession(ctx context.Context) (*Session, error) {
	p, err := c.running()
	if err != nil {
		return nil, err
	}
	for {
		next := p.keeper.Changed()
		again, stop := make(chan struct{}, 1), func() {}
		if s := p.keeper.Current(); s != nil {
			stop = s.OnChange(func() {
				select {
				case again <- struct{}{}:
				default:
				}
			})
			if s.Valid() {
				stop()
				return &Session{s: s}, nil
			}
		}
		select {
		case <-next:
		case <-again:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-p.restCtx.Done():
			err = ErrStopped
		}
		stop()
		if err != nil {
			return nil, err
		}
	}
}

// ID is the lease's id, 0 if there is no session. Keys that are put on it vanish with the session.
func (s *Session) ID() clientv3.LeaseID {
	if s.s == nil {
		return 0
	}
	return s.s.ID()
}

// TTL is the time-to-live that etcd granted, 0 if there is no session.
func (s *Session) TTL() time.Duration {
	if s.s == nil {
		return 0
	}
	return s.s.TTL()
}

// Valid reports whether the session may be acted on at this instant: no lock, no allocation, no network.
// It can turn true again after a suspension: others may have acted since.
func (s *Session) Valid() bool { return s.s != nil && s.s.Valid() }

// Deadline is the instant at which Valid turns false unless a renewal comes; zero if there is no session.
func (s *Session) Deadline() time.Time {
	if s.s == nil {
		return time.Time{}
	}
	return s.s.Deadline()
}

// Renewed is when the renewal that counts was sent; zero if there is no session.
func (s *Session) Renewed() time.Time {
	if s.s == nil {
		return time.Time{}
	}
	return s.s.Renewed()
}

// Left is how long Valid stays true from now on unless a renewal comes, by the clock that has less of it:
// for passing the deadline on to another process, which has clocks of its own.
func (s *Session) Left() time.Duration {
	if s.s == nil {
		return 0
	}
	return s.s.Left()
}

// Context ends when the session is lost or closed, with a session.LostError as its cause. If there is no
// session it has ended, with Err as its cause.
func (s *Session) Context() context.Context {
	if s.s == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(s.err)
		return ctx
	}
	return s.s.Context()
}

// Err is nil while the session stands, and else why it does not: a session.LostError, ErrNoSession,
// ErrNotStarted or ErrStopped.
func (s *Session) Err() error {
	if s.s == nil {
		return s.err
	}
	return s.s.Err()
}
