package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/lifecycle"
)

// Errors of claims.
var (
	// ErrRefused is returned if a claim that was tried could not be granted at once.
	ErrRefused = errors.New("it is claimed already")
	// ErrReleased is the cause of a grant's context after Release.
	ErrReleased = leasequeue.ErrReleased
	// ErrClaimLost is the cause of a grant's context when its row was deleted out of band.
	ErrClaimLost = lifecycle.ErrKeyLost
)

// Spec describes a claim.
type Spec struct {
	Name   string // any bytes; state.CheckName limits them
	Shared bool   // with others that share it
	Try    bool   // at once or not at all
	// Advisory is an advisory lock to take beside the claim; nil for none.
	Advisory *Advisory
}

// phase is the state of a claim in this process.
type phase int

const (
	phaseRequested phase = iota // the server was asked
	phaseWaiting                // the server has the claim
	phaseGranted
	phaseEnded // refused, failed, released or lost
)

// Claim is a claim of this process, from its request until the server has released it. As a grant it is safe for
// concurrent use.
type Claim struct {
	s    *Session
	spec Spec
	name string // as stored
	seq  int64

	decided  chan struct{} // closed when the claim is granted or has ended
	released chan struct{} // closed when the server has released it, or the session has ended

	// Guarded by Session.mu:

	phase     phase
	token     int64 // constant once granted
	err       error // the reason for the end
	releasing bool  // a release is to be sent or was sent
	advisory  bool  // the advisory lock is held
	ctx       context.Context
	cancel    context.CancelCauseFunc
}

// Acquire claims a name, and waits until the claim is granted or ctx ends, through any number of sessions. If ctx ends,
// the claim is released as soon as PostgreSQL answers.
func (k *Keeper) Acquire(ctx context.Context, spec Spec) (*Claim, error) {
	for {
		s, err := k.await(ctx)
		if err != nil {
			return nil, err
		}
		c := s.request(spec)
		select {
		case <-c.decided:
		case <-ctx.Done():
			s.release(c, context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
		switch err := c.result(); {
		case err == nil && c.Valid() && spec.Advisory != nil:
			taken, err := c.takeAdvisory(ctx)
			if taken && c.Valid() {
				return c, nil
			}
			lost := c.EndCause() != nil // otherwise the advisory lock was not free
			c.giveUp()
			if !lost {
				return nil, cmp.Or(err, ErrRefused)
			}
		case err == nil && c.Valid():
			return c, nil
		case err == nil: // the session has ended meanwhile, or stood still
			s.endCause()
			s.release(c, ErrReleased)
		case errors.Is(err, ErrClaimLost): // it was deleted before it could be used
		case !errors.Is(err, session.ErrLost):
			return nil, err
		}
		if s.ctx.Err() == nil {
			continue
		}
		select {
		case <-s.finished:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// request sends a claim.
func (s *Session) request(spec Spec) *Claim {
	c := &Claim{s: s, spec: spec, name: EscapeName(spec.Name), decided: make(chan struct{}), released: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := context.Cause(s.ctx); err != nil {
		c.endLocked(err)
		close(c.released)
		return c
	}
	s.seq++
	c.seq = s.seq
	s.claims[c.seq] = c
	s.queueLocked(c)
	return c
}

// result returns the reason why the claim was not granted, or nil.
func (c *Claim) result() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.err
}

// grantLocked makes the claim granted, unless it has ended. The session's lock is held.
func (c *Claim) grantLocked(token int64) {
	if c.phase > phaseWaiting {
		return
	}
	c.phase, c.token = phaseGranted, token
	c.ctx, c.cancel = context.WithCancelCause(c.s.ctx)
	close(c.decided)
}

// endLocked ends the claim for a reason, unless it has ended. The context is ended by the caller, without the lock.
func (c *Claim) endLocked(err error) (end func()) {
	end = func() {}
	switch c.phase {
	case phaseEnded:
		return end
	case phaseGranted:
		cancel := c.cancel
		end = func() { cancel(err) }
	default:
		close(c.decided)
	}
	c.phase, c.err = phaseEnded, err
	return end
}

// release ends a claim for a reason and sends its release.
func (s *Session) release(c *Claim, why error) {
	s.mu.Lock()
	end := c.endLocked(why)
	if !c.releasing {
		c.releasing = true
		s.queueLocked(c)
	}
	s.mu.Unlock()
	end()
}

// Name returns the claimed name.
func (c *Claim) Name() string { return c.spec.Name }

// Key returns the name as it is stored in the claim's row, for statements that are bound to the grant.
func (c *Claim) Key() string { return c.name }

// Token returns the fencing token of the grant.
func (c *Claim) Token() int64 { return c.token }

// Context returns a context that ends with the grant, at the session's deadline at the latest.
func (c *Claim) Context() context.Context { return c.ctx }

// Valid reports whether the holder may act at this instant.
func (c *Claim) Valid() bool { return c.ctx.Err() == nil && c.s.Valid() }

// EndCause returns the reason why the holder must stop, or nil. If the deadline has passed, it ends the session.
func (c *Claim) EndCause() error {
	if c.ctx.Err() == nil {
		c.s.endCause()
	}
	return context.Cause(c.ctx)
}

// Release ends the grant's context and gives up the claim. It blocks until PostgreSQL has confirmed, the session has
// ended, or ctx ends, in which case the release goes on. lost is the reason if the grant had ended before.
func (c *Claim) Release(ctx context.Context) (lost, err error) {
	if cause := c.EndCause(); cause != nil && !errors.Is(cause, ErrReleased) {
		lost = cause
	}
	c.giveUp()
	if err := c.AwaitReleased(ctx); err != nil {
		return lost, err
	}
	if errors.Is(lost, lifecycle.ErrStopped) {
		lost = nil // it was asked to end, and did so in time
	}
	return lost, nil
}

// AwaitReleased blocks until PostgreSQL has confirmed a release, the session has ended, or ctx ends. In
// that case it returns the cause of ctx.
func (c *Claim) AwaitReleased(ctx context.Context) error {
	select {
	case <-c.released:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SessionID returns the number of the session that has the claim.
func (c *Claim) SessionID() int64 { return c.s.id }

// Querier is a transaction of the user's.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// LockRow locks the grant's row in a transaction of the user's: no other claim of the name is granted before that has
// ended. It reports false if the row is gone.
func (c *Claim) LockRow(ctx context.Context, tx Querier) (stands bool, err error) {
	var one int
	err = tx.QueryRow(ctx, c.s.k.sql.fence, c.s.id, c.seq).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// EscapeName returns a name as text that PostgreSQL can store. A % begins an escaped byte.
func EscapeName(name string) string {
	if plain := strings.ToValidUTF8(name, "\x00"); !strings.ContainsAny(plain, "%\x00") {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		switch {
		case r == '%' || r == 0 || r == '\uFFFD' && !strings.HasPrefix(name[i:], "\uFFFD"):
			fmt.Fprintf(&b, "%%%02X", name[i])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
