// Package effects runs the effects of package once and keeps their marks in etcd.
//
// Not promised: anything beyond the promises of package once.
package effects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Config configures [Effects]. Queues and Keys are required.
type Config struct {
	// Queues holds the queues at Keys.Effects. The effects work while their engine runs. Its client also writes
	// the marks.
	Queues *leasequeue.Queues
	// Keys names the marks.
	Keys state.Keys
	// Owner is stored in the marks, so that operators see the author of an attempt.
	Owner string
	// Retention is the least time for which a mark is kept after its last change. It may be kept up to 9/16
	// longer, and the time starts anew when etcd's leader changes. A mark takes some 350 bytes in etcd's
	// database beside the result of the effect. etcd's default quota of 2 GiB holds some six million, a day of
	// 50 effects a second. Default once.DefaultRetention.
	Retention time.Duration
}

func (c Config) withDefaults() Config {
	if c.Retention == 0 {
		c.Retention = once.DefaultRetention
	}
	return c
}

// Validate reports the first field that is missing or invalid.
func (c Config) Validate() error {
	var err error
	switch {
	case c.Queues == nil:
		err = errors.New("Config.Queues is nil; give it an engine's queues at state.Keys.Effects")
	case c.Keys == state.Keys{}:
		err = errors.New("Config.Keys is empty; make it with state.NewKeys")
	case c.Retention != 0 && c.Retention < time.Minute:
		err = fmt.Errorf("Config.Retention is %v; give it a minute or more, or leave it 0 for 24h", c.Retention)
	}
	if err != nil {
		return fmt.Errorf("effects: %w", err)
	}
	return nil
}

// Effects runs effects. All methods are safe for concurrent use.
type Effects struct {
	cfg   Config
	marks *markStore
}

// New returns the effects. The error describes a mistake in the configuration.
func New(cfg Config) (*Effects, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Effects{cfg: cfg, marks: newMarkStore(cfg)}, nil
}

// Once runs fn, unless the effect took place before: then it returns the earlier result. While another process
// runs the effect, Once waits. An error of fn is returned unchanged and recorded; the next call runs fn again.
//
// fn receives a fencing token, larger than that of every earlier attempt, to pass to the receiver of the
// effect. fn's context ends with ctx and at the session's deadline. fn's result is kept in etcd if it is not
// longer than MaxValue. Otherwise every caller gets ErrValueTooLong, and only this call also gets the value. fn
// must not call Once with the same name: it would wait for itself.
//
// Beside fn's error and the error for a nil fn, Once returns a [once.UnknownError] if this or an earlier
// attempt left open whether the effect took place; ErrValueTooLong if it did take place; and
// lifecycle.ErrBadName, once.ErrStopped, ctx's cause, or etcd's error if fn did not run. Once fn has returned,
// Once continues, even if ctx has ended, until etcd has stored the outcome or the session is lost. A panic of
// fn leaves the outcome unknown.
func (e *Effects) Once(ctx context.Context, name string,
	fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error) {
	switch err := state.CheckName("effect", name); {
	case err != nil:
		return once.Result{}, err
	case fn == nil: // calling it would leave the outcome unknown
		return once.Result{}, fmt.Errorf("effect %q: the function is nil; give it the one that has the effect", name)
	case e.cfg.Queues.Closed(): // the client may be closed by now, which it would not report for a while
		return once.Result{}, once.ErrStopped
	}
	// An effect that took place long ago costs one read.
	if m, err := e.marks.readMark(ctx, name); err != nil {
		return once.Result{}, err
	} else if m.State == once.Done {
		return m.result(name)
	}
	for {
		grant, err := e.cfg.Queues.Acquire(ctx, leasequeue.EntrySpec{Name: name, Value: e.cfg.Owner})
		if err != nil {
			return once.Result{}, err
		}
		if r, again, err := e.runAttempt(ctx, grant, name, fn); !again {
			return r, err
		}
	}
}

// runAttempt runs an attempt with a grant, and releases it. again reports that the grant was lost before
// anything began, or that the mark was changed out of band.
func (e *Effects) runAttempt(ctx context.Context, grant *leasequeue.Grant, name string,
	fn func(context.Context, int64) ([]byte, error)) (_ once.Result, again bool, err error) {
	defer e.releaseGrant(ctx, grant)
	m, err := e.marks.readMark(ctx, name)
	switch {
	case err != nil:
		return once.Result{}, ctx.Err() == nil && !grant.Valid(), err
	case m.State == once.Done:
		r, err := m.result(name)
		return r, false, err
	case m.State == once.Running:
		return once.Result{}, false, m.unknownError(name, nil) // the node that ran it is no longer first
	}
	work, _, stop := grant.Within(ctx)
	defer stop()
	m.mark = mark{State: once.Running, Attempt: m.Attempt + 1, Token: grant.Token(), By: e.cfg.Owner,
		Retention: int64(e.cfg.Retention / time.Second)}
	err = e.marks.writeConfirmed(work, grant.Guard(), name, &m)
	switch {
	case err != nil:
	case !grant.Valid(): // timers may be late
		err = fmt.Errorf("effect %q: %w", name, errConflict)
	case ctx.Err() != nil: // it was answered all the same
		err = fmt.Errorf("effect %q: %w", name, context.Cause(ctx))
	}
	if err != nil {
		if work.Err() != nil && !errors.Is(err, context.Cause(work)) {
			err = errors.Join(err, context.Cause(work))
		}
		again := ctx.Err() == nil && (!grant.Valid() || errors.Is(err, errConflict))
		// fn did not run. Record that, because the mark may say Running.
		return once.Result{}, again, errors.Join(err, e.recordNotBegun(grant, name, m))
	}
	value, failure := fn(work, m.Token)
	r, err := e.recordOutcome(grant, name, m, value, failure)
	return r, false, err
}

// recordNotBegun records that an attempt did not begin. Its mark may stand, or may still be in flight and then finds
// another mark. If it cannot be written, the outcome counts as unknown.
func (e *Effects) recordNotBegun(grant *leasequeue.Grant, name string, m storedMark) error {
	ctx, cancel := context.WithTimeout(grant.SessionContext(), e.cfg.Queues.RequestTimeout())
	defer cancel()
	var err error
	for range 2 { // the mark may arrive between the read and the write, once
		var now storedMark
		now, err = e.marks.readMark(ctx, name)
		if err != nil || now.modRevision != m.modRevision && (now.State != once.Running || now.Token != m.Token) {
			return err
		}
		back := m
		back.modRevision, back.State, back.Error = now.modRevision, once.Failed, "it did not begin"
		if err = e.marks.writeConfirmed(ctx, grant.Guard(), name, &back); !errors.Is(err, errConflict) {
			return err
		}
	}
	return err
}

// recordOutcome records the outcome of an attempt. It retries while the session stands; if the entry is gone, the guard
// fails.
func (e *Effects) recordOutcome(grant *leasequeue.Grant, name string, m storedMark, value []byte,
	failure error) (once.Result, error) {
	switch {
	case failure != nil:
		m.State, m.Error = once.Failed, truncateError(failure)
	case len(value) > once.MaxValue:
		m.State, m.Dropped = once.Done, len(value)
	default:
		m.State, m.Value = once.Done, value
	}
	if err := e.marks.writeConfirmed(grant.SessionContext(), grant.Guard(), name, &m); err != nil {
		return once.Result{}, m.unknownError(name, errors.Join(failure, err, context.Cause(grant.Context())))
	}
	if failure != nil {
		return once.Result{}, failure
	}
	r, err := m.result(name)
	r.Value, r.Ran = value, true
	return r, err
}

// truncateError returns the part of an error's text that is kept.
func truncateError(err error) string {
	const most = 1024
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// Resolve decides the outcome of the attempt with that token, which must be unknown. Either the effect took
// place, with that value; or it did not, and the next call of Once runs it again. Resolve blocks until etcd has
// stored the decision or ctx ends. A lost session only delays it. The error matches ErrNotUnknown if there is
// no such attempt or it was resolved otherwise meanwhile, and ErrValueTooLong if the value is too long.
// Otherwise it is lifecycle.ErrBadName, once.ErrStopped, ctx's cause, or etcd's error.
func (e *Effects) Resolve(ctx context.Context, name string, token int64, tookPlace bool, value []byte) error {
	if err := state.CheckName("effect", name); err != nil {
		return err
	}
	if len(value) > once.MaxValue {
		return fmt.Errorf("effect %q, %d bytes: %w", name, len(value), once.ErrValueTooLong)
	}
	r := resolution{name: name, token: token, state: once.Failed}
	if tookPlace {
		r.state, r.value = once.Done, value
	}
	for {
		grant, err := e.cfg.Queues.Acquire(ctx, leasequeue.EntrySpec{Name: name, Value: e.cfg.Owner})
		if err != nil {
			return err
		}
		if again, err := e.tryResolve(ctx, grant, &r); !again {
			return err
		}
	}
}

// resolution holds the decision about an attempt.
type resolution struct {
	name  string
	token int64
	state once.State
	value []byte
	at    time.Time // time of the last attempt to write it; zero if there was none
}

// tryResolve carries out Resolve with a grant, and releases it. again reports that the grant or the mark
// had changed, or the session was lost.
func (e *Effects) tryResolve(ctx context.Context, grant *leasequeue.Grant, r *resolution) (again bool, err error) {
	defer e.releaseGrant(ctx, grant)
	m, err := e.marks.readMark(ctx, r.name)
	switch {
	case err != nil:
		return false, err
	case !r.at.IsZero() && m.At.Equal(r.at) && m.Token == r.token && m.Resolved == e.cfg.Owner:
		return false, nil // the last attempt was committed, and its answer lost
	case m.State != once.Running || m.Token != r.token:
		return false, fmt.Errorf("effect %q, token %d: %w", r.name, r.token, once.ErrNotUnknown)
	}
	m.State, m.Value, m.Resolved = r.state, r.value, e.cfg.Owner
	work, stop := wait.MergeContexts(ctx, grant.SessionContext())
	defer stop()
	err = e.marks.writeConfirmed(work, grant.Guard(), r.name, &m)
	r.at = m.At
	switch {
	case err == nil:
		return false, nil
	case ctx.Err() != nil:
		return false, errors.Join(err, context.Cause(ctx))
	}
	return errors.Is(err, errConflict) || work.Err() != nil, err
}

// releaseGrant releases the grant. If etcd does not confirm in time, that happens later.
func (e *Effects) releaseGrant(ctx context.Context, grant *leasequeue.Grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Queues.RequestTimeout())
	defer cancel()
	_, _ = grant.ReleaseAndWait(ctx) // all writes were guarded
}

// Close runs no further effects, ends the contexts of running ones, and makes the waiting calls fail. It blocks
// until the running ones have ended. If ctx ends first, it returns an error that wraps ctx's cause.
func (e *Effects) Close(ctx context.Context) error {
	return e.cfg.Queues.Close(ctx)
}
