package elector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// run is the shell of one call of Run. It carries out the decisions of leaseState, one request at a time.
type run struct {
	e         *Elector
	state     leaseState
	term      *term // the current term, or one with callbacks that have not returned
	announcer *announcer
	hints     wait.Signal // sent when the store reports a change of the record
	err       error       // the failure of the store, nil while it works

	// writeFails tells that err is of a write. A read proves nothing about writes then, unless it finds a new record.
	writeFails bool
}

// performStep performs one step: a request, or a rest.
func (r *run) performStep(ctx context.Context) {
	now := r.e.now()
	r.endTerm(now)
	r.publishState(now)
	if step := r.state.nextStep(now); step.do == doRest {
		r.restUntil(ctx, now, step.at)
	} else {
		r.sendRequest(ctx, step, now)
		r.beginTerm(ctx)
	}
}

// beginTerm starts the term that was won.
func (r *run) beginTerm(ctx context.Context) {
	if r.term == nil && r.state.leading {
		r.term = r.e.startTerm(ctx, r.state.token, r.state.claim)
		r.e.log.Info("this candidate leads", "token", r.state.token)
	}
}

// endTerm ends a term that is over, and forgets it when its callbacks have returned.
func (r *run) endTerm(now deadline.Instant) {
	t := r.term
	if t == nil {
		return
	}
	if r.state.leading && (t.scope.EndCause() != nil || !r.state.leads(now)) {
		r.state = r.state.withTermEnded()
		t.endTerm(ErrExpired)
	}
	if r.state.leading {
		return
	}
	if r.e.term.Swap(nil) != nil {
		t.endTerm(ErrTaken)
		r.e.log.Info("this candidate no longer leads",
			append([]any{"token", t.token, "reason", t.scope.EndCause()}, r.storeErrorArgs()...)...)
	}
	select {
	case <-t.done:
		r.term, r.state = nil, r.state.withCallbacksDone()
	default:
	}
}

// publishState makes the current state visible to IsLeader, Leader and OnNewLeader.
func (r *run) publishState(now deadline.Instant) {
	s := r.state
	r.e.state.Store(&s)
	if s.leads(now) {
		r.announcer.enqueueLeader(s.id)
	} else {
		r.announcer.enqueueLeader(s.otherLeader(now))
	}
}

// restUntil waits until an instant, or until something happens that requires a decision.
func (r *run) restUntil(ctx context.Context, now deadline.Instant, until int64) {
	timer := time.NewTimer(time.Duration(until - now.Mono))
	defer timer.Stop()
	var over <-chan struct{}
	switch {
	case r.term != nil && r.state.leading:
		over = r.term.ctx.Done()
	case r.term != nil:
		over = r.term.done
	}
	select {
	case <-timer.C:
	case <-over:
	case <-ctx.Done():
	case <-r.hints:
		r.state = r.state.withHint(r.e.now())
	}
}

// sendRequest sends the request of a step. sent is the instant of the decision, from which a granted lease counts.
func (r *run) sendRequest(run context.Context, step step, sent deadline.Instant) {
	ctx, cancel := context.WithTimeout(run, r.e.cfg.requestTimeout())
	defer cancel()
	before := r.state.record.Version
	r.state = r.state.withRequestSent(step.do)
	store, record, err := r.e.cfg.LeaseStore, Lease{}, error(nil)
	err = callback.Run(func() (err error) {
		switch step.do {
		case doGet:
			record, err = store.GetLease(ctx)
		case doCreate:
			record, err = store.CreateLease(ctx, step.lease)
		case doUpdate:
			record, err = store.UpdateLease(ctx, step.lease)
		}
		return err
	})
	answered := r.e.now()
	absent := step.do == doGet && errors.Is(err, ErrNotFound)
	conflict := errors.Is(err, ErrConflict) || errors.Is(err, ErrExists)
	switch {
	case step.do == doGet && (err == nil || absent):
		r.state = r.state.withRead(record, !absent, answered)
	case err == nil:
		r.state = r.state.withWrite(record, sent, answered)
		if claim := r.state.claim; r.term != nil {
			r.term.claim.Store(&claim)
		}
	default:
		r.state = r.state.withFailure(conflict, answered)
	}
	reads, writes := step.do == doGet && (err == nil || absent), step.do != doGet && (err == nil || conflict)
	switch {
	case writes, reads && (!r.writeFails || r.state.record.Version != before):
		r.recordStoreWorks()
	case !reads && run.Err() == nil:
		r.recordStoreError(err, step.do != doGet)
	}
}

// recordStoreError logs when the store begins to fail.
func (r *run) recordStoreError(err error, write bool) {
	works := r.err == nil
	r.err, r.writeFails = err, write || r.writeFails
	if works {
		r.e.log.Warn("the lease store fails, retrying", r.storeErrorArgs()...)
	}
}

// recordStoreWorks logs when the store works again.
func (r *run) recordStoreWorks() {
	failed := r.err != nil
	r.err, r.writeFails = nil, false
	if failed {
		r.e.log.Info("the lease store works again")
	}
}

// storeErrorArgs returns log arguments with the store's last error in one line, or nothing if the store works.
func (r *run) storeErrorArgs() []any {
	if r.err == nil {
		return nil
	}
	return []any{"error", logtext.OneLine(r.err)}
}

// finishTerm waits until the callbacks of the term have returned, and releases the lease if configured.
func (r *run) finishTerm(ctx context.Context) error {
	if r.term != nil {
		<-r.term.done
		r.state = r.state.withTermEnded()
		r.endTerm(r.e.now())
	}
	r.publishState(r.e.now())
	if !r.e.cfg.ReleaseOnCancel {
		return nil
	}
	return r.releaseLease(ctx)
}

// releaseLease releases the lease that this candidate holds, or may hold because an answer was lost.
func (r *run) releaseLease(ctx context.Context) error {
	now := r.e.now()
	limit := r.e.cfg.requestTimeout()
	if r.state.token > 0 {
		limit = max(limit, now.Until(r.state.claim.EndsAt()))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for r.state = r.state.withReadDue(now); ; now = r.e.now() {
		step := r.state.releaseStep(now)
		switch {
		case step.do == doFinish:
			return nil
		case ctx.Err() != nil:
			if r.err == nil {
				return fmt.Errorf("%w: %w", ErrNotReleased, ctx.Err())
			}
			return fmt.Errorf("%w: %w: %w", ErrNotReleased, ctx.Err(), r.err)
		case step.do == doRest:
			r.restUntil(ctx, now, step.at)
		default:
			r.sendRequest(ctx, step, now)
		}
	}
}
