package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// prefix sets the claims of effects apart from those of locks and elections.
const prefix = "once/"

// errClaimGone reports that PostgreSQL does not have the claim under which an attempt was to begin.
var errClaimGone = errors.New("the session's claim is not in the database of Config.DB: give it the database that " +
	"has the session")

// maxGone limits the claims that one call finds gone although its session is valid, as after an out-of-band deletion.
const maxGone = 3

// Once implements [once.Registry].
func (e *Effects) Once(ctx context.Context, name string,
	fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error) {
	switch err := state.CheckName("effect", name); {
	case err != nil:
		return once.Result{}, err
	case fn == nil: // calling it would leave the outcome unknown
		return once.Result{}, errNilFunction(name)
	}
	// An effect that took place long ago costs one read.
	if m, err := e.readMark(ctx, name); err != nil {
		return once.Result{}, err
	} else if m.State == once.Done {
		return resultOf(m)
	}
	for gone := 0; ; {
		c, err := e.keeper.Acquire(ctx, claims.Spec{Name: prefix + name})
		if err != nil {
			return once.Result{}, err
		}
		r, again, err := e.runAttempt(ctx, c, name, fn)
		if errors.Is(err, errClaimGone) {
			gone++
		}
		if !again || gone == maxGone {
			return r, err
		}
	}
}

func errNilFunction(name string) error {
	return fmt.Errorf("effect %q: the function is nil; give it the one that has the effect", name)
}

// runAttempt runs an attempt with a claim, and releases it. again reports that the claim was lost before anything
// began.
func (e *Effects) runAttempt(ctx context.Context, c *claims.Claim, name string,
	fn func(context.Context, int64) ([]byte, error)) (_ once.Result, again bool, err error) {
	defer e.releaseClaim(ctx, c)
	work, stop := wait.MergeContexts(ctx, c.Context())
	defer stop()
	m, began, err := e.beginAttempt(work, c, name)
	switch {
	case err == nil && !began && m.State != "" && m.State != once.Failed:
		r, err := judgeMark(m)
		return r, false, err
	case err == nil && !began && c.Valid():
		return once.Result{}, true, fmt.Errorf("effect %q: %w", name, errClaimGone)
	case err == nil && !c.Valid(): // timers may be late
		err = fmt.Errorf("effect %q: %w", name, c.EndCause())
	case err == nil && ctx.Err() != nil: // it was answered all the same
		err = fmt.Errorf("effect %q: %w", name, context.Cause(ctx))
	}
	if err != nil { // fn does not run; record that, because the mark may say Running
		again := ctx.Err() == nil && !c.Valid()
		return once.Result{}, again, errors.Join(err, e.recordNotBegun(c, name, err))
	}
	value, failure := fn(work, c.Token())
	r, err := e.recordOutcome(c, m, value, failure)
	return r, false, err
}

// beginAttempt writes that an attempt begins. If it could not, began is false and m is the mark that stands.
func (e *Effects) beginAttempt(ctx context.Context, c *claims.Claim, name string) (m once.Standing, began bool,
	err error) {
	attempt, began, err := e.writeConfirmed(ctx, c, name, e.sql.begin, once.Running, c.Token(), e.owner,
		e.cfg.Retention, "")
	if err != nil {
		return once.Standing{}, false, err
	}
	if began {
		return once.Standing{Name: name, State: once.Running, Attempt: attempt, Token: c.Token(), By: e.owner}, true, nil
	}
	m, err = e.readConfirmed(ctx, name)
	// If it is the own one, it was written and the answer lost.
	return m, err == nil && m.Token == c.Token() && m.State == once.Running, err
}

// judgeMark returns what a mark means to a caller that has the claim: no other attempt runs.
func judgeMark(m once.Standing) (once.Result, error) {
	if m.State == once.Done {
		return resultOf(m)
	}
	return once.Result{}, unknownError(m, nil)
}

// recordNotBegun records that an attempt did not begin. Its mark may stand, or may still be in flight and then finds
// another one. If it cannot be written, the outcome counts as unknown.
func (e *Effects) recordNotBegun(c *claims.Claim, name string, why error) error {
	if refusedForGood(why) {
		return nil // nothing was written, and nothing can be
	}
	ctx, cancel := context.WithTimeout(c.Context(), requestTimeout)
	defer cancel()
	_, _, err := e.writeConfirmed(ctx, c, name, e.sql.begin, once.Failed, c.Token(), e.owner, e.cfg.Retention,
		"it did not begin")
	return err
}

// recordOutcome records the outcome of an attempt. It retries while the session stands; if the claim is gone, the
// fence refuses.
func (e *Effects) recordOutcome(c *claims.Claim, m once.Standing, value []byte, failure error) (once.Result, error) {
	switch {
	case failure != nil:
		m.State, m.Error = once.Failed, logtext.Bound(failure.Error(), maxError)
	case len(value) > once.MaxValue:
		m.State, m.Dropped = once.Done, len(value)
	default:
		m.State, m.Value = once.Done, value
	}
	if err := e.storeOutcome(c.Context(), c, m); err != nil {
		return once.Result{}, unknownError(m, errors.Join(failure, err, c.EndCause()))
	}
	if e.deleteDue() {
		e.deleteExpired(c.Context())
	}
	if failure != nil {
		return once.Result{}, failure
	}
	r, err := resultOf(m)
	r.Value, r.Ran = value, true
	return r, err
}

// errOutcomeRefused reports that the mark is not that of the attempt any more, or the claim is gone.
var errOutcomeRefused = errors.New("the claim on the effect was lost, or its mark was changed out of band")

// storeOutcome stores an outcome in the mark of a running attempt. Its error matches errOutcomeRefused if there is no
// such mark, or the claim is gone.
func (e *Effects) storeOutcome(ctx context.Context, c *claims.Claim, m once.Standing) error {
	value := m.Value
	if value == nil {
		value = []byte{}
	}
	_, wrote, err := e.writeConfirmed(ctx, c, m.Name, e.sql.record, m.Token, m.State, value, m.Dropped, m.Error,
		m.Resolved)
	if err != nil || wrote {
		return err
	}
	now, err := e.readConfirmed(ctx, m.Name)
	switch {
	case err != nil:
		return err
	case now.Token == m.Token && now.State == m.State && now.Resolved == m.Resolved:
		return nil // an earlier execution wrote it, and its answer was lost
	}
	return fmt.Errorf("effect %q: %w", m.Name, errOutcomeRefused)
}

// releaseClaim releases a claim. If PostgreSQL does not confirm in time, that happens later.
func (e *Effects) releaseClaim(ctx context.Context, c *claims.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	_, _ = c.Release(ctx) // all writes were guarded
}
