package leaderelection

import (
	"context"
	"fmt"
	"time"
)

// Participation starts and ends a member's part in the election. Its methods are for the one goroutine that starts and
// stops the member.
type Participation struct{ le *LeaderElection }

// Start starts to observe and, unless the member is an observer, to queue. It returns once this member is queued or
// its election has failed; for an observer, once it sees the cluster. It does not wait for leadership. If ctx
// ends first, the candidacy is withdrawn and an error returned. Until Close, a request that etcd carries out later is
// undone.
func (p *Participation) Start(ctx context.Context) error {
	le := p.le
	le.mu.Lock()
	if le.started || le.stopped {
		le.mu.Unlock()
		return ErrStarted
	}
	le.started = true
	le.wg.Go(le.run)
	le.mu.Unlock()
	if err := le.awaitQueued(ctx); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), le.cfg.RequestTimeout)
		defer cancel()
		_ = p.Withdraw(stopCtx) // the error is ctx's
		return fmt.Errorf("join the election under %s: %w", le.keys.Election(), err)
	}
	return nil
}

func (le *LeaderElection) awaitQueued(ctx context.Context) error {
	stopped := false
	err := le.waitUntil(ctx, func() bool {
		s := le.mirror.Snapshot()
		if stopped = le.stopped; stopped {
			return true
		}
		if s == nil || le.sessionRun == nil {
			return false
		}
		own, _ := s.CandidateOn(int64(le.sessionRun.s.ID()))
		return own != nil || le.failure != nil || !le.candidacy.WantsToLead()
	})
	if err == nil && stopped {
		return ErrStopped
	}
	return err
}

// Withdraw ends this member's leadership, if it leads, and its candidacy for good. The flag goes down within
// microseconds. The call then blocks until the work in Lead has returned (at most WorkTimeout) and etcd has
// confirmed the deletion of the key (at most RequestTimeout; after that it is still retried, and the end of the
// session deletes the key in any case). If the session is lost, it does not wait for etcd. If ctx ends first, it
// returns ctx's cause; if functions go on after WorkTimeout, of this term or a former one, an error that matches
// ErrWorkRuns. The election continues to observe.
func (p *Participation) Withdraw(ctx context.Context) error {
	le := p.le
	le.mu.Lock()
	part, ended := le.candidacy.Withdraw(time.Now())
	le.candidacy = part
	le.endTerm(ended, nil)
	le.mu.Unlock()
	le.wake.Send()
	err := le.waitUntil(ctx, func() bool {
		return (le.sessionRun == nil || le.term.Load() == nil) && !le.workRunning()
	})
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, le.cfg.RequestTimeout)
	defer cancel()
	err = le.waitUntil(bounded, func() bool {
		return le.sessionRun == nil ||
			le.candidacy.NothingLeft(le.mirror.Snapshot())
	})
	if err != nil && ctx.Err() != nil {
		return err
	}
	le.mu.Lock()
	defer le.mu.Unlock()
	return le.overdue.Err()
}

// Close ends this member's term and candidacy, stops observing, and waits for all goroutines. It makes no request:
// call Withdraw first, or end the session, which deletes this member's keys.
func (p *Participation) Close() {
	le := p.le
	le.mu.Lock()
	le.stopped = true
	le.mu.Unlock()
	le.cancel(ErrStopped)
	le.notifyChange()
	le.wg.Wait()
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.lastTerm != nil {
		le.lastTerm.scope.Abandon()
	}
}
