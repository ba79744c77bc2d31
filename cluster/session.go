package cluster

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/wait"
)

// ErrNoSession is returned while this node has no session. It opens one as soon as etcd answers.
var ErrNoSession = errors.New("this node has no session at the moment")

// Session is one session of this node: an etcd lease with its safe deadline. Programs can attach their own keys
// to it. A lost session does not come back; the node opens a new one. All methods are safe for concurrent use,
// and none blocks.
type Session struct {
	s   *etcdsession.Session // nil if there is none
	err error                // the reason why there is none
}

// Session returns the node's session at this instant. It is never nil. While there is none, its ID is 0, it is
// not valid, its context has ended, and Err returns the reason: ErrNotStarted, ErrStopped or ErrNoSession.
func (c *Cluster) Session() *Session {
	p, err := c.runningParts()
	if err != nil {
		return &Session{err: err}
	}
	if s := p.Keeper.Current(); s != nil {
		return &Session{s: s}
	}
	return &Session{err: ErrNoSession}
}

// WaitForSession blocks until the node has a valid session. Errors are ctx's cause, ErrNotStarted and ErrStopped.
func (c *Cluster) WaitForSession(ctx context.Context) (*Session, error) {
	p, err := c.runningParts()
	if err != nil {
		return nil, err
	}
	for {
		next := p.Keeper.Changed()
		again, stop := wait.NewSignal(), func() {}
		if s := p.Keeper.Current(); s != nil {
			stop = s.OnChange(again.Send)
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
		case <-p.tracked.Context().Done():
			err = ErrStopped
		}
		stop()
		if err != nil {
			return nil, err
		}
	}
}

// ID returns the lease's id, 0 if there is no session. etcd deletes keys attached to the lease when the session
// ends.
func (s *Session) ID() clientv3.LeaseID {
	if s.s == nil {
		return 0
	}
	return s.s.ID()
}

// TTL returns the time-to-live that etcd granted, 0 if there is no session.
func (s *Session) TTL() time.Duration {
	if s.s == nil {
		return 0
	}
	return s.s.TTL()
}

// Valid reports whether the caller may act on the session at this instant. It takes no lock, allocates nothing
// and does not use the network. It can become true again after a suspension; other nodes may have acted in the
// meantime.
func (s *Session) Valid() bool { return s.s != nil && s.s.Valid() }

// Deadline returns the time at which Valid turns false unless a renewal comes; zero if there is no session.
func (s *Session) Deadline() time.Time {
	if s.s == nil {
		return time.Time{}
	}
	return s.s.Deadline()
}

// Renewed returns the time at which the last successful renewal was sent; zero if there is no session.
func (s *Session) Renewed() time.Time {
	if s.s == nil {
		return time.Time{}
	}
	return s.s.RenewedAt()
}

// Left returns the time for which Valid stays true unless a renewal comes, by whichever of the host's clocks
// leaves less. Use it to pass the deadline on to another process, which has its own clocks.
func (s *Session) Left() time.Duration {
	if s.s == nil {
		return 0
	}
	return s.s.TimeLeft()
}

// Context returns a context that ends when the session is lost or closed, with a session.LostError as its cause.
// If there is no session the context has already ended, with Err as its cause.
func (s *Session) Context() context.Context {
	if s.s == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(s.err)
		return ctx
	}
	return s.s.Context()
}

// Err returns nil while the session lasts. Otherwise it returns the reason for its end: a session.LostError,
// ErrNoSession, ErrNotStarted or ErrStopped.
func (s *Session) Err() error {
	if s.s == nil {
		return s.err
	}
	return s.s.Err()
}
