package elector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/callback"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// run is the shell of one call of Run. It carries out the decisions of standing, one request at a time.
type run struct {
	e    *Elector
	s    leaseState
	term *term // the current term, or one with callbacks that have not returned
	says *announcer
	err  error // of the last request, nil if the store carried it out
}

// step performs one step: a request, or a rest.
func (r *run) step(ctx context.Context) {
	now := r.e.now()
	r.endTerm(now)
	r.publish(now)
	if step := r.s.decide(now); step.do == rest {
		r.rest(ctx, now, step.at)
	} else {
		r.send(ctx, step, now)
		r.begin(ctx)
	}
}

// begin starts the term that was won.
func (r *run) begin(ctx context.Context) {
	if r.term == nil && r.s.leading {
		r.term = r.e.begin(ctx, r.s.token, r.s.claim)
		r.e.log.Info("this candidate leads", "token", r.s.token)
	}
}

// endTerm ends a term that is over, and forgets it when its callbacks have returned.
func (r *run) endTerm(now deadline.Instant) {
	t := r.term
	if t == nil {
		return
	}
	if r.s.leading && (t.ctx.Err() != nil || !r.s.leads(now)) {
		r.s = r.s.ended()
		t.end(ErrExpired)
	}
	if r.s.leading {
		return
	}
	if r.e.term.Swap(nil) != nil {
		t.end(ErrTaken)
		r.e.log.Info("this candidate no longer leads",
			append([]any{"token", t.token, "reason", context.Cause(t.ctx)}, r.trouble()...)...)
	}
	select {
	case <-t.done:
		r.term, r.s = nil, r.s.returned()
	default:
	}
}

// publish makes the current state visible to IsLeader, Leader and OnNewLeader.
func (r *run) publish(now deadline.Instant) {
	s := r.s
	r.e.seen.Store(&s)
	if s.leads(now) {
		r.says.say(s.id)
	} else {
		r.says.say(s.other(now))
	}
}

// rest waits until an instant, or until something happens that requires a decision.
func (r *run) rest(ctx context.Context, now deadline.Instant, until int64) {
	timer := time.NewTimer(time.Duration(until - now.Mono))
	defer timer.Stop()
	var over <-chan struct{}
	switch {
	case r.term != nil && r.s.leading:
		over = r.term.ctx.Done()
	case r.term != nil:
		over = r.term.done
	}
	changed, stop := r.watch(ctx)
	defer stop()
	select {
	case <-timer.C:
	case <-over:
	case <-ctx.Done():
	case <-changed:
		r.s = r.s.prompted(r.e.now())
	}
}

// watch watches the record if the store can. The channel is closed when the record changes. stop ends the watch
// and waits for it.
func (r *run) watch(ctx context.Context) (changed <-chan struct{}, stop func()) {
	w, can := r.e.cfg.LeaseStore.(LeaseWatcher)
	if !can || !r.s.sure || !r.s.found || r.s.leading || r.err != nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	version := r.s.record.Version
	notified, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if callback.Run(func() error { return w.WatchLease(ctx, version) }) == nil {
			close(notified)
		}
	}()
	return notified, func() {
		cancel()
		<-ended
	}
}

// send sends the request of a step. sent is the instant of the decision, from which a granted lease counts.
func (r *run) send(run context.Context, step step, sent deadline.Instant) {
	ctx, cancel := context.WithTimeout(run, r.e.cfg.requestTimeout())
	defer cancel()
	r.s = r.s.sends(step.do)
	store, record, err := r.e.cfg.LeaseStore, Lease{}, error(nil)
	err = callback.Run(func() (err error) {
		switch step.do {
		case get:
			record, err = store.GetLease(ctx)
		case create:
			record, err = store.CreateLease(ctx, step.lease)
		case update:
			record, err = store.UpdateLease(ctx, step.lease)
		}
		return err
	})
	answered := r.e.now()
	absent := step.do == get && errors.Is(err, ErrNotFound)
	conflict := errors.Is(err, ErrConflict) || errors.Is(err, ErrExists)
	switch {
	case step.do == get && (err == nil || absent):
		r.s = r.s.got(record, !absent, answered)
	case err == nil:
		r.s = r.s.wrote(record, sent, answered)
		if claim := r.s.claim; r.term != nil {
			r.term.claim.Store(&claim)
		}
	default:
		r.s = r.s.failed(conflict, answered)
	}
	switch {
	case absent || conflict:
		r.logStoreError(nil)
	case run.Err() == nil:
		r.logStoreError(err)
	}
}

// logStoreError logs when the store begins to fail and when it works again.
func (r *run) logStoreError(err error) {
	before := r.err
	r.err = err
	switch {
	case err != nil && before == nil:
		r.e.log.Warn("the lease store fails, retrying", r.trouble()...)
	case err == nil && before != nil:
		r.e.log.Info("the lease store works again")
	}
}

// trouble returns log arguments with the store's last error in one line, or nothing if the store works.
func (r *run) trouble() []any {
	if r.err == nil {
		return nil
	}
	return []any{"error", logtext.OneLine(r.err)}
}

// stop waits until the callbacks of the term have returned, and releases the lease if configured.
func (r *run) stop(ctx context.Context) error {
	if r.term != nil {
		<-r.term.done
		r.s = r.s.ended()
		r.endTerm(r.e.now())
	}
	r.publish(r.e.now())
	if !r.e.cfg.ReleaseOnCancel {
		return nil
	}
	return r.release(ctx)
}

// release releases the lease that this candidate holds, or may hold because an answer was lost.
func (r *run) release(ctx context.Context) error {
	now := r.e.now()
	limit := r.e.cfg.requestTimeout()
	if r.s.token > 0 {
		limit = max(limit, now.Until(r.s.claim.Ends()))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for r.s = r.s.prompted(now); ; now = r.e.now() {
		step := r.s.leave(now)
		switch {
		case step.do == done:
			return nil
		case ctx.Err() != nil:
			if r.err == nil {
				return fmt.Errorf("%w: %w", ErrNotReleased, ctx.Err())
			}
			return fmt.Errorf("%w: %w: %w", ErrNotReleased, ctx.Err(), r.err)
		case step.do == rest:
			r.rest(ctx, now, step.at)
		default:
			r.send(ctx, step, now)
		}
	}
}
