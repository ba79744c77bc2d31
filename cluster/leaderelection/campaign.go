package leaderelection

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/cluster/session"
)

const (
	// retryDelay keeps a write that achieved nothing from being sent in a loop.
	retryDelay = 50 * time.Millisecond
	// failuresAllowed in a row, over at least a TTL, make the election failed.
	failuresAllowed = 5
	// requeueDelay lets the next leader take over before one that gave way to it
	// queues again: that write would be told to every node just then.
	requeueDelay = 50 * time.Millisecond
)

// failures counts campaigns that failed in a row.
type failures struct {
	count   int
	first   time.Time
	nextTry time.Time
}

// campaign is one call of concurrency.Election.Campaign. It runs in a goroutine
// of its own, for it blocks until it wins; that it won is not what makes this
// node lead, the snapshot is.
type campaign struct {
	cancel context.CancelFunc
	done   chan struct{}
	joined int64 // CreateRevision of the key it queues with; guarded by le.mu
}

// derived is the client under concurrency.NewSession: the user's KV with every
// request bounded, the session's lease, and the mirror as its watcher.
func (r *round) derived(ctx context.Context, joined func(int64), leaving func()) (*concurrency.Session, error) {
	client := clientv3.NewCtxClient(ctx)
	client.KV = boundedKV{KV: r.le.cfg.Client.KV, timeout: r.le.cfg.RequestTimeout, mirror: r.le.mirror,
		joined: joined, leaving: leaving}
	client.Lease = r.s.Lease()
	client.Watcher = fedWatcher{mirror: r.le.mirror}
	return concurrency.NewSession(client, concurrency.WithLease(r.s.ID()))
}

// start carries out d.do in a goroutine of its own. The lock is held.
func (r *round) start(d decision) {
	old := r.active
	var op func() error
	switch d.do {
	case join:
		op = func() error { r.endCampaign(old); return r.join() }
	case leave:
		r.barred = max(r.barred, d.rev)
		r.candidacy.release()
		op = func() error { r.endCampaign(old); return r.delete(d.rev, r.resign) }
	case abandon:
		op = func() error { r.endCampaign(old); return nil }
	case deleteActing:
		r.barred = max(r.barred, d.rev)
		r.acting.release()
		op = func() error { return r.delete(d.rev, r.deleteActing) }
	case rewrite:
		r.retryAt = time.Now().Add(retryDelay)
		op = func() error { return r.rewrite(d.rev) }
	case createActing:
		r.retryAt = time.Now().Add(retryDelay)
		op = r.createActing
	}
	r.busy = true
	le := r.le
	le.wg.Go(func() {
		err := op()
		le.mu.Lock()
		r.busy = false
		first := r.refused == 0
		if err != nil {
			r.retryAt = time.Now().Add(min(retryDelay<<min(r.refused, 6), r.s.TTL()/3))
			r.refused++
		} else {
			r.refused = 0
		}
		le.notifyLocked()
		le.mu.Unlock()
		switch {
		case err == nil || r.s.Err() != nil:
		case errors.Is(err, rpctypes.ErrPermissionDenied) && (d.do == leave || d.do == deleteActing):
			// A key that may not be deleted goes with its lease only.
			r.s.Lose(session.ReasonPermission, err)
		case first:
			le.log.Warn("could not write this node's election key, trying on", "error", err)
		}
		le.poke()
	})
}

// join starts a campaign and returns when it is under way.
func (r *round) join() error {
	ctx, cancel := context.WithCancel(r.s.Context())
	c := &campaign{cancel: cancel, done: make(chan struct{})}
	le := r.le
	le.mu.Lock()
	r.active, r.campaign = c, campaignState{running: true}
	le.mu.Unlock()
	stop := context.AfterFunc(le.ctx, cancel) // the round may have been closed meanwhile
	le.wg.Go(func() {
		defer close(c.done)
		defer cancel()
		defer stop()
		err := r.compete(ctx, c)
		le.mu.Lock()
		if r.active == c {
			r.active, r.campaign.running = nil, false
			if err != nil && ctx.Err() == nil {
				r.campaignFailed(err)
			}
		}
		le.notifyLocked()
		le.mu.Unlock()
		le.poke()
	})
	return nil
}

func (r *round) compete(ctx context.Context, c *campaign) error {
	// Not ctx: a campaign that is cancelled still deletes its key.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	cs, err := r.derived(base, func(revision int64) { r.joined(c, revision) }, func() { r.leaving(c) })
	if err != nil {
		return err
	}
	defer cs.Orphan()
	return concurrency.NewElection(cs, r.le.keys.Election()).Campaign(ctx, r.le.cfg.Address)
}

// joined notes the key that a campaign queues with as soon as etcd said it.
func (r *round) joined(c *campaign, revision int64) {
	le := r.le
	le.mu.Lock()
	c.joined = revision
	if r.active == c {
		r.campaign.joined = revision
	}
	le.mu.Unlock()
	le.poke()
}

// leaving bars a campaign's key before the campaign itself sends its deletion,
// as it does when it is cancelled: from then on the key may be gone at any time.
func (r *round) leaving(c *campaign) {
	le := r.le
	le.mu.Lock()
	if t := le.term.Load(); t != nil && t.round == r && t.token == c.joined {
		if err := r.s.Err(); err != nil {
			r.endTerm(t, ReasonSessionLost, err)
		} else {
			r.endTerm(t, ReasonKeyLost, nil)
		}
	}
	r.barred = max(r.barred, c.joined)
	le.mu.Unlock()
}

// endCampaign cancels a campaign and waits for it. Cancelling deletes its key.
func (r *round) endCampaign(c *campaign) {
	if c == nil {
		return
	}
	c.cancel()
	<-c.done
}

// campaignFailed counts a failure and decides whether the election has failed
// for this node. The lock is held.
func (r *round) campaignFailed(err error) {
	now := time.Now()
	f := &r.failures
	if f.count == 0 {
		f.first = now
	}
	f.count++
	denied := errors.Is(err, rpctypes.ErrPermissionDenied)
	le := r.le
	if le.failed == nil && (denied || f.count >= failuresAllowed && now.Sub(f.first) >= r.s.TTL()) {
		le.failed = err
		le.log.Error(le.failedFor(denied), "error", err)
	}
	wait := min(time.Duration(f.count)*4*retryDelay, r.s.TTL()/3)
	if le.failed != nil {
		wait = min(max(r.s.TTL()/3, 500*time.Millisecond), 3*time.Second)
	}
	f.nextTry = now.Add(wait)
}

// failedFor is what to say of a failed election.
func (le *LeaderElection) failedFor(denied bool) string {
	text, then := "this node cannot be elected", "it goes on trying and does not lead until then"
	if denied {
		text = "etcd denies this node's candidacy: grant WRITE on " + le.keys.Queue()
	}
	if le.cfg.Fallback {
		then = "leadership goes by name only while nobody can be elected"
	}
	return text + "; " + then
}

// delete runs a guarded deletion and notes that the key is gone.
func (r *round) delete(rev int64, do func(ctx context.Context, rev int64) error) error {
	ctx, cancel := context.WithTimeout(r.s.Context(), r.le.cfg.RequestTimeout)
	defer cancel()
	if err := do(ctx, rev); err != nil {
		return err
	}
	r.le.mu.Lock()
	r.gone = max(r.gone, rev)
	r.le.mu.Unlock()
	return nil
}

// resign deletes the candidate's key. ResumeElection rather than the election
// that campaigned: a Resign that failed on that one cannot be tried again.
func (r *round) resign(ctx context.Context, rev int64) error {
	cs, err := r.derived(r.s.Context(), nil, nil)
	if err != nil {
		return err
	}
	defer cs.Orphan()
	return concurrency.ResumeElection(cs, r.le.keys.Queue(), r.le.keys.Candidate(int64(r.s.ID())), rev).Resign(ctx)
}

func (r *round) deleteActing(ctx context.Context, rev int64) error {
	key := r.le.keys.Acting()
	_, err := r.le.cfg.Client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", rev)).
		Then(clientv3.OpDelete(key)).Commit()
	return err
}

// createActing makes this node the acting leader if nobody queues and nobody
// acts; the snapshot then says so.
func (r *round) createActing() error {
	ctx, cancel := context.WithTimeout(r.s.Context(), r.le.cfg.RequestTimeout)
	defer cancel()
	key := r.le.keys.Acting()
	_, err := r.le.cfg.Client.Txn(ctx).
		If(queueEmpty(r.le.keys), clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, r.le.cfg.Address, clientv3.WithLease(r.s.ID()))).Commit()
	return err
}

// rewrite puts the candidate's key right after somebody altered it.
func (r *round) rewrite(modRevision int64) error {
	ctx, cancel := context.WithTimeout(r.s.Context(), r.le.cfg.RequestTimeout)
	defer cancel()
	key := r.le.keys.Candidate(int64(r.s.ID()))
	_, err := r.le.cfg.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", modRevision)).
		Then(clientv3.OpPut(key, r.le.cfg.Address, clientv3.WithLease(r.s.ID()))).Commit()
	return err
}
