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

// campaign is one call of concurrency.Election.Campaign. It runs in its own goroutine because it blocks until
// it wins. The win does not make this node lead; the snapshot does.
type campaign struct {
	cancel context.CancelFunc
	done   chan struct{}
	joined int64 // CreateRevision of its key; guarded by le.mu
}

// derived returns the session for concurrency.Election. Its client is the user's KV with a time-out on every
// request, the session's lease, and the mirror as the watcher.
func (r *round) derived(ctx context.Context, joined func(int64), leaving func()) (*concurrency.Session, error) {
	client := clientv3.NewCtxClient(ctx)
	client.KV = boundedKV{KV: r.le.cfg.Client.KV, timeout: r.le.cfg.RequestTimeout, mirror: r.le.mirror,
		joined: joined, leaving: leaving}
	client.Lease = r.s.Lease()
	client.Watcher = fedWatcher{mirror: r.le.mirror}
	return concurrency.NewSession(client, concurrency.WithLease(r.s.ID()))
}

// start carries out a request in its own goroutine. The caller holds le.mu.
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
		le.wakeLoop()
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

// join starts a campaign and returns without waiting for its result.
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
			err = nil // cancelled
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
		le.wakeLoop()
	})
}

func (r *round) compete(ctx context.Context, c *campaign) error {
	// The base context is independent of ctx, because a cancelled campaign still has to delete its key.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	cs, err := r.derived(base, func(revision int64) { r.joined(c, revision) }, func() { r.leaving(c) })
	if err != nil {
		return err
	}
	defer cs.Orphan()
	return concurrency.NewElection(cs, r.le.keys.Election()).Campaign(ctx, r.le.cfg.Address)
}

// joined records the key of a campaign as soon as etcd has answered.
func (r *round) joined(c *campaign, revision int64) {
	le := r.le
	le.mu.Lock()
	c.joined = revision
	if r.active == c && le.round == r {
		le.part = le.part.Joined(revision)
	}
	le.mu.Unlock()
	le.wakeLoop()
}

// leaving is called before a cancelled campaign deletes its key.
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

// endCampaign cancels a campaign and waits for its end. The campaign deletes its key.
func (r *round) endCampaign(c *campaign) {
	if c == nil {
		return
	}
	c.cancel()
	<-c.done
}

// campaignEnded records the result of a campaign, and logs it if the election has now failed for this node. The
// caller holds le.mu.
func (le *LeaderElection) campaignEnded(err error) {
	how := outcome(err)
	before := le.part.Failed()
	le.part = le.part.CampaignEnded(time.Now(), how)
	if le.part.Failed() && !before {
		le.failed = err
		le.log.Error(le.failedFor(how == candidacy.Denied), "error", err)
	}
}

// failedFor returns the log line for a failed election.
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

// bounded makes one request with a time-out.
func (r *round) bounded(request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.s.Context(), r.le.cfg.RequestTimeout)
	defer cancel()
	return request(ctx)
}

// resign deletes the candidate's key. It uses ResumeElection instead of the campaign's own election, on which a
// failed Resign cannot be retried.
func (r *round) resign(ctx context.Context, rev int64) error {
	cs, err := r.derived(r.s.Context(), nil, nil)
	if err != nil {
		return err
	}
	defer cs.Orphan()
	return concurrency.ResumeElection(cs, r.le.keys.Queue(), r.le.keys.Candidate(int64(r.s.ID())), rev).Resign(ctx)
}

// commit commits a change. The snapshot shows whether its guards held.
func (r *round) commit(ctx context.Context, c txn.Txn) error {
	_, err := txn.Commit(ctx, r.le.cfg.Client, c)
	return err
}
