package simulation

import (
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// checkEvent is called with every event in a process's log.
func (c *checks) checkEvent(p *process, what event.Type, f logFields) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.w.wakeChecks()
	switch what {
	case event.LeaderElected:
		c.checkTermBegan(p, f.number("token"), leaderelection.Mode(f.text("mode")))
	case event.LeaderLost:
		c.checkTermEnded(p, f.number("token"), f.text("reason"))
	case event.SessionLost:
		if o, counted := sessionEnds[session.Reason(f.text("reason"))]; counted {
			c.w.Counts.Count(o)
		}
	case event.NodeRefuted:
		c.w.Counts.Count(Refuted)
	case event.ShardsRebalanced:
		for name, o := range shardMoves {
			n, _ := f.value(name).(int)
			c.w.Counts.Add(o, n)
		}
	}
}

var sessionEnds = map[session.Reason]string{session.ReasonExpired: SessionExpired,
	session.ReasonUnreachable: SessionExpired, session.ReasonPaused: SessionPaused, session.ReasonRevoked: SessionRevoked,
	session.ReasonPermission: SessionPermission, session.ReasonKeyLost: SessionKeyLost}

// shardMoves maps the fields of a log line about a new shard map to the occurrences that they count.
var shardMoves = map[string]string{"assigned": ShardAssigned, "drained": ShardDrained,
	"rebalanced": ShardRebalanced}

// checkTermBegan checks every new term.
func (c *checks) checkTermBegan(p *process, token int64, mode leaderelection.Mode) {
	c.w.Counts.Count(TermBegan)
	if p.host.roles.electionOnly {
		c.w.Counts.Count(TermAlone)
	}
	k := &p.facts
	if k.token != 0 && c.workStillRuns(p, k.token) {
		c.fail("P2", "%s leads with token %d while work of token %d is running", p.id, token, k.token)
	}
	greatest, _ := c.terms.Greatest(false)
	if p.host.standsStill() {
		// In the simulation its goroutines run, by clocks that stand. The term begins at the instant that these show.
		greatest = p.host.greatestBefore
	}
	if s := p.session(); token <= greatest && (s == nil || c.findLoss(p, s, token) == nil) {
		c.fail("P2", "%s leads with token %d, after a term with token %d", p.id, token, greatest)
	}
	c.terms.Add(token, false, p)
	k.token, k.mode, k.over = token, mode, -1
	if mode == leaderelection.ModeFallback {
		c.w.Counts.Count(ActingTerm)
		if !k.mayAct {
			c.fail("P3", "%s acts as leader, though its election has not failed", p.id)
		}
	}
}

// recordRecovery records that the election works again for a process that sees itself in the queue.
func (c *checks) recordRecovery(x *claim) {
	if x.s == nil || x.view == nil {
		return
	}
	if own, _ := x.view.CandidateOn(int64(x.s.ID())); own != nil {
		x.p.facts.denied, x.p.facts.failures = false, 0
	}
}

// workStillRuns reports whether work of a process's last term still runs and must be waited for.
func (c *checks) workStillRuns(p *process, token int64) bool {
	k := &p.facts
	return k.token == token && k.over >= 0 && c.w.Now() < k.over+workTimeout && p.user.functionRuns(token)
}

// checkTermEnded checks every ended term. No member may lose its term while it has its key.
func (c *checks) checkTermEnded(p *process, token int64, reason string) {
	k := &p.facts
	k.over = c.w.Now()
	if o, counted := termEnds[leaderelection.Reason(reason)]; counted {
		c.w.Counts.Count(o)
	} else if reason != "" {
		c.w.Counts.Count(GaveWay) // the reason is the requester's own text
	}
	if p.user.functionRuns(token) {
		c.w.Counts.Count(WorkAwaited)
	}
	switch leaderelection.Reason(reason) {
	case leaderelection.ReasonSessionLost:
		c.resigned = append(c.resigned, token) // if the session was only suspended, the member queues anew
	case leaderelection.ReasonKeyLost:
		key := c.w.keys.Acting()
		if s := p.session(); k.mode != leaderelection.ModeFallback && s != nil {
			key = c.w.keys.Candidate(int64(s.ID()))
		}
		if c.truth.keyExists(key, token) {
			c.fail("P3", "%s lost its term %d, though its key stands", p.id, token)
		}
	}
	c.w.faults.reachMoment(p, momentTermEnded)
}

var termEnds = map[leaderelection.Reason]string{leaderelection.ReasonResigned: Resigned,
	leaderelection.ReasonRequested: GaveWay,
	leaderelection.ReasonKeyLost:   KeyLost, leaderelection.ReasonSessionLost: SessionLost,
	leaderelection.ReasonSuperseded: Superseded,
	leaderelection.ReasonStopped:    Withdrawn}

// recordSent is called with every request that is about to be sent. For a shard map or a guarded write it returns the
// duty under which it is sent.
func (c *checks) recordSent(p *process, k requestKind, request any) (by planningDuty) {
	switch k {
	case requestPlan:
		r, _ := request.(*pb.TxnRequest)
		by = c.w.dutyIn(r)
	case requestGuardedWrite:
		c.mu.Lock()
		by = planningDuty{mode: p.facts.mode, token: p.facts.token, lease: p.facts.lease}
		c.mu.Unlock()
	case requestElectionChange:
		r, _ := request.(*pb.TxnRequest)
		if parsed, _ := c.w.findPut(r, state.KindActing); parsed.Kind == state.KindActing {
			c.mu.Lock()
			p.facts.mayAct = p.facts.denied || p.facts.failures > 0
			c.mu.Unlock()
		}
	case requestRenew:
		if r, ok := request.(*pb.LeaseKeepAliveRequest); ok {
			c.mu.Lock()
			p.facts.roundBegan[r.ID] = c.w.Now()
			if p.facts.tries < 0 {
				p.facts.tries = c.w.Now()
			}
			c.mu.Unlock()
		}
	}
	return by
}

// recordUnanswered is called with a request that its sender gets no answer to.
func (c *checks) recordUnanswered(p *process, k requestKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The process waits in vain until a time-out.
	p.facts.waits = max(p.facts.waits, c.w.Now()+requestTimeout)
	if k == requestCampaign || k == requestQueueRead {
		p.facts.failures++
		c.w.Counts.Count(CampaignFailed)
	}
}

// checkExecuted is called with every request that etcd has executed or refused.
func (c *checks) checkExecuted(p *process, k requestKind, request any, by planningDuty, answer any, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, _ := request.(*pb.TxnRequest)
	a, _ := answer.(*pb.TxnResponse)
	if err != nil {
		p.facts.denied = p.facts.denied || errors.Is(err, modeletcd.Denied) // only candidacies are ever denied
		return
	}
	held := a != nil && a.Succeeded
	switch {
	case k == requestPlan && held:
		c.checkAcceptedMap(p, by, r)
	case k == requestPlan:
		c.countRefusedMap(by)
	case k == requestGuardedWrite && held:
		c.checkWrite(p, by)
	case k == requestGuardedWrite:
		c.w.Counts.Count(WriteRefused)
	case k == requestAccuse && held:
		c.checkAccusations(p, r)
	case k == requestRemove && held:
		c.checkRemovals(p, r)
	case k >= requestAccuseSilent && k <= requestProofRead:
		c.checkSilenceExecuted(p, k, r, a)
	case k == requestReport && held:
		c.w.Counts.Count(Reported)
		_, value := c.w.findPut(r, state.KindReleased)
		c.countStragglers(value)
	case k == requestRecord && held:
		c.w.Counts.Count(Recorded)
	case k == requestRefute && held:
		c.w.Counts.Count(Withdrew)
	case k == requestCompare:
		c.w.Counts.Count(WatchCompared)
	case k == requestRead && p.viewSince != 0:
		c.w.Counts.Count(ViewReadAnew)
	case k == requestElectionChange && held:
		if parsed, _ := c.w.findPut(r, state.KindCandidate); parsed.Kind == state.KindCandidate {
			c.w.Counts.Count(KeyRewritten)
		}
	}
}

// completesRound reports whether a read of a process completes a renewal round: the lease was renewed, and no read was
// answered since.
func (c *checks) completesRound(p *process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.facts.renewed
}

// recordAnswer is called with every answer that its sender gets.
func (c *checks) recordAnswer(p *process, k requestKind, request, answer any, err error) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := &p.facts
	if k == requestRenew {
		known.renewed = true
	}
	if s := p.session(); k == requestRoundRead && s != nil {
		began := known.roundBegan[int64(s.ID())]
		all := true
		known.renewed = false
		for i, op := range answer.(*pb.TxnResponse).Responses {
			kvs, asked := op.GetResponseRange().GetKvs(), request.(*pb.TxnRequest).Success[i].GetRequestRange()
			all = all && (len(kvs) > 0 || len(asked.GetRangeEnd()) > 0) // a range is one of accusations
			for _, kv := range kvs {
				known.shown[kv.CreateRevision] = began
			}
		}
		if !all {
			c.w.Counts.Count(KeyMissed)
		}
		known.confirmed[int64(s.ID())] = began
		known.round, known.tries = c.w.Now()-known.tries, -1
		c.recordConfirmedRound(p, began)
	}
}

// checkWrite checks every guarded write that etcd accepted.
func (c *checks) checkWrite(p *process, d planningDuty) {
	c.w.Counts.Count(WriteAccepted)
	why := ""
	switch {
	case d.mode == leaderelection.ModeFallback && !c.truth.keyExists(c.w.keys.Acting(), d.token):
		why = "the acting key is gone"
	case d.mode == leaderelection.ModeFallback && c.truth.firstCandidate() != nil:
		why = "somebody queues"
	case d.mode != leaderelection.ModeFallback && !c.candidateExists(d.token):
		why = "its key is gone"
	}
	if why != "" {
		c.fail("P2", "etcd accepted a write of %s with token %d, but %s", p.id, d.token, why)
	}
	if greatest, other := c.writes.Greatest(false); d.token < greatest {
		c.fail("P2", "etcd accepted a write of %s with token %d after one of %s with %d", p.id, d.token, other.id, greatest)
	}
	c.writes.Add(d.token, false, p)
}

// candidateExists reports whether a candidate's key with that CreateRevision exists.
func (c *checks) candidateExists(token int64) bool {
	for _, kv := range c.truth.queue {
		if kv.CreateRevision == token {
			return true
		}
	}
	return false
}

// checkGaveUp checks that a member keeps its place in the queue unless it stops or was asked to give way.
func (c *checks) checkGaveUp(p *process, kv *mvccpb.KeyValue) {
	if p.dead.Load() {
		return
	}
	s := p.session()
	if s == nil || int64(s.ID()) != kv.Lease || !s.Period().ValidDespitePause() {
		return
	}
	if token := kv.CreateRevision; c.workStillRuns(p, token) {
		c.fail("P2", "%s gives its key %d up while work of that term is running", p.id, token)
	}
	if p.stopRequested || p.host.roles.observer || c.requests > 0 || slices.Contains(c.resigned, kv.CreateRevision) {
		return
	}
	c.fail("P3", "%s gave up its place in the queue (%d) without a reason", p.id, kv.CreateRevision)
}

// planningDuty identifies the key that entitles a process to plan.
type planningDuty struct {
	mode  leaderelection.Mode
	token int64
	lease int64
}

// dutyIn returns the duty that a map's guards check. A copy of the request may be sent when the duty is over.
func (w *world) dutyIn(r *pb.TxnRequest) planningDuty {
	for _, guard := range r.GetCompare() {
		switch key := w.keys.Parse(string(guard.Key)); key.Kind {
		case state.KindActing:
			return planningDuty{mode: leaderelection.ModeFallback, token: guard.GetCreateRevision()}
		case state.KindCandidate:
			return planningDuty{mode: leaderelection.ModeElection, token: guard.GetCreateRevision(), lease: key.Lease}
		}
	}
	return planningDuty{}
}
