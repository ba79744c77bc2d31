package leaderelection

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/member/candidacy"
	"github.com/goverse/goverse/internal/state/txn"
)

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

// start carries out a request in a goroutine of its own. The lock is held.
func (r *round) start(req candidacy.Request) {
	le, old := r.le, r.active
	le.wg.Go(func() {
		var err error
		switch req.Kind {
		case candidacy.Join:
			r.endCampaign(old)
			r.join()
		case candidacy.Leave:
			r.endCampaign(old)
			err = r.bounded(func(ctx context.Context) error { return r.resign(ctx, req.Revision) })
		case candidacy.Abandon:
			r.endCampaign(old)
		default:
			err = r.bounded(func(ctx context.Context) error { return r.commit(ctx, req.Change) })
		}
		first, hopeless := false, false
		le.mu.Lock()
		if le.round == r {
			first = le.part.Refused() == 0
			le.part, hopeless = le.part.Finished(req, outcome(err), time.Now())
		}
		le.notifyLocked()
		le.mu.Unlock()
		switch {
		case err == nil || r.s.Err() != nil:
		case hopeless:
			r.s.Lose(session.ReasonPermission, err)
		case first:
			le.log.Warn("could not write this node's election key, retrying", "error", err)
		}
		le.poke()
	})
}

func outcome(err error) candidacy.Outcome {
	switch {
	case err == nil:
		return candidacy.Worked
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return candidacy.Denied
	}
	return candidacy.Failed
}

// join starts a campaign and returns when it is under way.
func (r *round) join() {
	ctx, cancel := context.WithCancel(r.s.Context())
	c := &campaign{cancel: cancel, done: make(chan struct{})}
	le := r.le
	le.mu.Lock()
	r.active = c
	if le.round == r {
		le.part = le.part.CampaignBegan()
	}
	le.mu.Unlock()
	stop := context.AfterFunc(le.ctx, cancel) // the round may have been closed meanwhile
	le.wg.Go(func() {
		defer close(c.done)
		defer cancel()
		defer stop()
		err := r.compete(ctx, c)
		if ctx.Err() != nil {
			err = nil // it was cancelled
		}
		le.mu.Lock()
		if r.active == c {
			r.active = nil
			if le.round == r {
				le.campaignEnded(err)
			}
		}
		le.notifyLocked()
		le.mu.Unlock()
		le.poke()
	})
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
	if r.active == c && le.round == r {
		le.part = le.part.Joined(revision)
	}
	le.mu.Unlock()
	le.poke()
}

// leaving is called before a campaign, as it does when it is cancelled, deletes its
// key.
func (r *round) leaving(c *campaign) {
	le := r.le
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.round != r {
		return
	}
	err := r.s.Err()
	part, ended := le.part.Leaving(c.joined, err == nil, time.Now())
	le.part = part
	le.endTerm(ended, err)
}

// endCampaign cancels a campaign and waits for it. Cancelling deletes its key.
func (r *round) endCampaign(c *campaign) {
	if c == nil {
		return
	}
	c.cancel()
	<-c.done
}

// campaignEnded says it when the election has failed for this node. The lock is
// held.
func (le *LeaderElection) campaignEnded(err error) {
	how := outcome(err)
	before := le.part.Failed()
	le.part = le.part.CampaignEnded(time.Now(), how)
	if le.part.Failed() && !before {
		le.failed = err
		le.log.Error(le.failedFor(how == candidacy.Denied), "error", err)
	}
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

// bounded makes one request.
func (r *round) bounded(request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.s.Context(), r.le.cfg.RequestTimeout)
	defer cancel()
	return request(ctx)
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

// commit makes a change. Whether its guards held, the snapshot shows.
func (r *round) commit(ctx context.Context, c txn.Txn) error {
	_, err := txn.Commit(ctx, r.le.cfg.Client, c)
	return err
}
