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

// newRecipeSession returns the session for concurrency.Election. Its client is the user's KV with a time-out on every
// request, the session's lease, and the mirror as the watcher.
func (r *sessionRun) newRecipeSession(ctx context.Context, joined func(int64), leaving func()) (*concurrency.Session,
	error) {
	client := clientv3.NewCtxClient(ctx)
	client.KV = boundedKV{KV: r.le.cfg.Client.KV, timeout: r.le.cfg.RequestTimeout, mirror: r.le.mirror,
		onJoined: joined, onLeaving: leaving}
	client.Lease = r.s.Lease()
	client.Watcher = mirrorWatcher{mirror: r.le.mirror}
	return concurrency.NewSession(client, concurrency.WithLease(r.s.ID()))
}

// startRequest carries out a request in its own goroutine. The caller holds le.mu.
func (r *sessionRun) startRequest(req candidacy.Request) {
	le, old := r.le, r.campaign
	le.wg.Go(func() {
		var err error
		switch req.Action {
		case candidacy.JoinQueue:
			r.endCampaign(old)
			r.startCampaign()
		case candidacy.LeaveQueue:
			r.endCampaign(old)
			err = r.withRequestTimeout(func(ctx context.Context) error { return r.deleteCandidateKey(ctx, req.Revision) })
		case candidacy.EndCampaign:
			r.endCampaign(old)
		default:
			err = r.withRequestTimeout(func(ctx context.Context) error { return r.commitTxn(ctx, req.Txn) })
		}
		first, hopeless := false, false
		le.mu.Lock()
		if le.sessionRun == r {
			first = le.candidacy.FailedRequests() == 0
			le.candidacy, hopeless = le.candidacy.RequestFinished(req, outcomeOf(err), time.Now())
		}
		le.notifyLocked()
		le.mu.Unlock()
		switch {
		case err == nil || r.s.Err() != nil:
		case hopeless:
			r.s.EndLocally(session.ReasonPermission, err)
		case first:
			le.log.Warn("could not write this node's election key, retrying", "error", err)
		}
		le.wake.Send()
	})
}

func outcomeOf(err error) candidacy.Outcome {
	switch {
	case err == nil:
		return candidacy.Succeeded
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return candidacy.Denied
	}
	return candidacy.Failed
}

// startCampaign starts a campaign and returns without waiting for its result.
func (r *sessionRun) startCampaign() {
	ctx, cancel := context.WithCancel(r.s.Context())
	c := &campaign{cancel: cancel, done: make(chan struct{})}
	le := r.le
	le.mu.Lock()
	r.campaign = c
	if le.sessionRun == r {
		le.candidacy = le.candidacy.CampaignBegan()
	}
	le.mu.Unlock()
	stop := context.AfterFunc(le.ctx, cancel) // the run may have been closed meanwhile
	le.wg.Go(func() {
		defer close(c.done)
		defer cancel()
		defer stop()
		err := r.runCampaign(ctx, c)
		if ctx.Err() != nil {
			err = nil // cancelled
		}
		le.mu.Lock()
		if r.campaign == c {
			r.campaign = nil
			if le.sessionRun == r {
				le.recordCampaignEnd(err)
			}
		}
		le.notifyLocked()
		le.mu.Unlock()
		le.wake.Send()
	})
}

func (r *sessionRun) runCampaign(ctx context.Context, c *campaign) error {
	// The base context is independent of ctx, because a cancelled campaign still has to delete its key.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	cs, err := r.newRecipeSession(base, func(revision int64) { r.recordJoined(c, revision) },
		func() { r.recordLeaving(c) })
	if err != nil {
		return err
	}
	defer cs.Orphan()
	return concurrency.NewElection(cs, r.le.keys.Election()).Campaign(ctx, r.le.cfg.Address)
}

// recordJoined records the key of a campaign as soon as etcd has answered.
func (r *sessionRun) recordJoined(c *campaign, revision int64) {
	le := r.le
	le.mu.Lock()
	c.joined = revision
	if r.campaign == c && le.sessionRun == r {
		le.candidacy = le.candidacy.CampaignJoined(revision)
	}
	le.mu.Unlock()
	le.wake.Send()
}

// recordLeaving is called before a cancelled campaign deletes its key.
func (r *sessionRun) recordLeaving(c *campaign) {
	le := r.le
	le.mu.Lock()
	defer le.mu.Unlock()
	if le.sessionRun != r {
		return
	}
	err := r.s.Err()
	part, ended := le.candidacy.CampaignCancelled(c.joined, err == nil, time.Now())
	le.candidacy = part
	le.endTerm(ended, err)
}

// endCampaign cancels a campaign and waits for its end. The campaign deletes its key.
func (r *sessionRun) endCampaign(c *campaign) {
	if c == nil {
		return
	}
	c.cancel()
	<-c.done
}

// recordCampaignEnd records the result of a campaign, and logs it if the election has now failed for this node. The
// caller holds le.mu.
func (le *LeaderElection) recordCampaignEnd(err error) {
	how := outcomeOf(err)
	before := le.candidacy.ElectionFailed()
	le.candidacy = le.candidacy.CampaignEnded(time.Now(), how)
	if le.candidacy.ElectionFailed() && !before {
		le.failure = err
		le.log.Error(le.failureLine(how == candidacy.Denied), "error", err)
	}
}

// failureLine returns the log line for a failed election.
func (le *LeaderElection) failureLine(denied bool) string {
	text, then := "this node cannot be elected", "it goes on trying and does not lead until then"
	if denied {
		text = "etcd denies this node's candidacy: grant WRITE on " + le.keys.Queue()
	}
	if le.cfg.Fallback {
		then = "leadership goes by name only while no node can be elected"
	}
	return text + "; " + then
}

// withRequestTimeout makes one request with a time-out.
func (r *sessionRun) withRequestTimeout(request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.s.Context(), r.le.cfg.RequestTimeout)
	defer cancel()
	return request(ctx)
}

// deleteCandidateKey deletes the candidate's key. It uses ResumeElection instead of the campaign's own election, on
// which a failed Resign cannot be retried.
func (r *sessionRun) deleteCandidateKey(ctx context.Context, rev int64) error {
	cs, err := r.newRecipeSession(r.s.Context(), nil, nil)
	if err != nil {
		return err
	}
	defer cs.Orphan()
	return concurrency.ResumeElection(cs, r.le.keys.Queue(), r.le.keys.Candidate(int64(r.s.ID())), rev).Resign(ctx)
}

// commitTxn commits a change. The snapshot shows whether its guards held.
func (r *sessionRun) commitTxn(ctx context.Context, c txn.Txn) error {
	_, err := txn.Commit(ctx, r.le.cfg.Client, c)
	return err
}
