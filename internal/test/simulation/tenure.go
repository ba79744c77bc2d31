package simulation

import (
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// event is called with every event in a process's log.
func (c *checks) event(p *process, what event.Type, f fields) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.w.look()
	switch what {
	case event.LeaderElected:
		c.termBegan(p, f.number("token"), election.Mode(f.text("mode")))
	case event.LeaderLost:
		c.termEnded(p, f.number("token"), f.text("reason"))
	case event.SessionLost:
		if o, counted := sessionEnds[session.Reason(f.text("reason"))]; counted {
			c.seen.Count[o]++
		}
	case event.NodeRefuted:
		c.seen.Count[Refuted]++
	case event.ShardsRebalanced:
		for name, o := range shardMoves {
			n, _ := f.value(name).(int)
			c.seen.Count[o] += n
		}
	}
}

var sessionEnds = map[session.Reason]Occurrence{session.ReasonExpired: SessionExpired,
	session.ReasonUnreachable: SessionExpired, session.ReasonPaused: SessionPaused, session.ReasonRevoked: SessionRevoked,
	session.ReasonPermission: SessionPermission, session.ReasonKeyLost: SessionKeyLost}

// shardMoves maps the fields of a log line about a new shard map to the occurrences that they count.
var shardMoves = map[string]Occurrence{"assigned": ShardAssigned, "drained": ShardDrained,
	"rebalanced": ShardRebalanced}

// termBegan checks every new term.
func (c *checks) termBegan(p *process, token int64, mode election.Mode) {
	c.seen.Count[TermBegan]++
	k := &p.known
	if k.token != 0 && c.works(p, k.token) {
		c.fail("P2", "%s leads with token %d while work of token %d is running", p.id, token, k.token)
	}
	if s := p.session(); token <= c.begun && (s == nil || c.excuse(p, s, token) == nil) {
		c.fail("P2", "%s leads with token %d, after a term with token %d", p.id, token, c.begun)
	}
	c.begun = max(c.begun, token)
	k.token, k.mode, k.over = token, mode, -1
	if mode == election.ModeFallback {
		c.seen.Count[ActingTerm]++
		if !k.mayAct {
			c.fail("P3", "%s acts as leader, though its election has not failed", p.id)
		}
	}
}

// recovers records that the election works again for a process that sees itself in the queue.
func (c *checks) recovers(x *claim) {
	if x.s == nil || x.view == nil {
		return
	}
	if own, _ := x.view.Candidate(int64(x.s.ID())); own != nil {
		x.p.known.denied, x.p.known.failures = false, 0
	}
}

// works reports whether work of a process's last term still runs and must be waited for.
func (c *checks) works(p *process, token int64) bool {
	k := &p.known
	return k.token == token && k.over >= 0 && c.w.now() < k.over+workTimeout && p.use.works(token)
}

// termEnded checks every ended term. No member may lose its term while it has its key.
func (c *checks) termEnded(p *process, token int64, reason string) {
	k := &p.known
	k.over = c.w.now()
	if o, counted := termEnds[election.Reason(reason)]; counted {
		c.seen.Count[o]++
	} else if reason != "" {
		c.seen.Count[GaveWay]++ // the reason is the requester's own text
	}
	if p.use.works(token) {
		c.seen.Count[WorkAwaited]++
	}
	switch election.Reason(reason) {
	case election.ReasonSessionLost:
		c.resigned = append(c.resigned, token) // if the session was only suspended, the member queues anew
	case election.ReasonKeyLost:
		key := c.w.keys.Acting()
		if s := p.session(); k.mode != election.ModeFallback && s != nil {
			key = c.w.keys.Candidate(int64(s.ID()))
		}
		if c.truth.created(key, token) {
			c.fail("P3", "%s lost its term %d, though its key stands", p.id, token)
		}
	}
	c.w.faults.moment(p, termEnded)
}

var termEnds = map[election.Reason]Occurrence{election.ReasonResigned: Resigned, election.ReasonRequested: GaveWay,
	election.ReasonKeyLost: KeyLost, election.ReasonSessionLost: SessionLost, election.ReasonSuperseded: Superseded,
	election.ReasonStopped: Withdrawn}

// sent is called with every request that is about to be sent. For a shard map or a guarded write it returns the
// duty under which it is sent.
func (c *checks) sent(p *process, k kind, request any) (by duty) {
	switch k {
	case toPlan, toWrite:
		guards, _ := p.core.Manager.Election().Duty()
		c.mu.Lock()
		by = duty{mode: p.known.mode, token: p.known.token, lease: p.known.lease}
		if k == toPlan && len(guards) > 0 {
			by = c.w.dutyOf(guards)
		}
		c.mu.Unlock()
	case toChange:
		r, _ := request.(*pb.TxnRequest)
		if parsed, _ := c.w.puts(r, state.KindActing); parsed.Kind == state.KindActing {
			c.mu.Lock()
			p.known.mayAct = p.known.denied || p.known.failures > 0
			c.mu.Unlock()
		}
	case toRenew:
		if r, ok := request.(*pb.LeaseKeepAliveRequest); ok {
			c.mu.Lock()
			p.known.roundBegan[r.ID] = c.w.now()
			if p.known.tries < 0 {
				p.known.tries = c.w.now()
			}
			c.mu.Unlock()
		}
	}
	return by
}

// doomed is called with a request that is lost, or that has its answer lost.
func (c *checks) doomed(p *process, k kind, f outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The process waits in vain until a time-out.
	p.known.waits = max(p.known.waits, c.w.now()+requestTimeout)
	if k == toCampaign || k == toLookAhead {
		p.known.failures++
		c.seen.Count[CampaignFailed]++
	}
	if f == unanswered {
		c.seen.Count[AnswerLost]++
	}
	if f == late {
		c.seen.Count[CameLate]++
	}
}

// carriedOut is called with every request that etcd has executed or refused.
func (c *checks) carriedOut(p *process, k kind, request any, by duty, answer any, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, _ := request.(*pb.TxnRequest)
	a, _ := answer.(*pb.TxnResponse)
	if err != nil {
		p.known.denied = p.known.denied || errors.Is(err, modeletcd.Denied) // only candidacies are ever denied
		return
	}
	held := a != nil && a.Succeeded
	switch {
	case k == toPlan && held:
		c.checkAcceptedMap(p, by, r)
	case k == toPlan:
		c.refused(by)
	case k == toWrite && held:
		c.wrote(p, by)
	case k == toWrite:
		c.seen.Count[WriteRefused]++
	case k == toAccuse && held:
		c.accused(p, r)
	case k == toRemove && held:
		c.removed(p, r)
	case k == toReport && held:
		c.seen.Count[Reported]++
		_, value := c.w.puts(r, state.KindReleased)
		c.countStragglers(value)
	case k == toRecord && held:
		c.seen.Count[Recorded]++
	case k == toRefute && held:
		c.seen.Count[Withdrew]++
	case k == toCompare:
		c.seen.Count[WatchCompared]++
	case k == toRead && p.looks != 0:
		c.seen.Count[ViewReadAnew]++
	case k == toChange && held:
		if parsed, _ := c.w.puts(r, state.KindCandidate); parsed.Kind == state.KindCandidate {
			c.seen.Count[KeyRewritten]++
		}
	}
}

// answered is called with every answer that its sender gets.
func (c *checks) answered(p *process, k kind, answer any, err error) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := &p.known
	if s := p.session(); k == toCheck && s != nil {
		began := known.roundBegan[int64(s.ID())]
		all := true
		for _, op := range answer.(*pb.TxnResponse).Responses {
			kvs := op.GetResponseRange().GetKvs()
			all = all && len(kvs) > 0
			for _, kv := range kvs {
				known.shown[kv.CreateRevision] = began
			}
		}
		if !all {
			c.seen.Count[KeyMissed]++
		}
		known.confirmed[int64(s.ID())] = began
		known.round, known.tries = c.w.now()-known.tries, -1
		c.confirmed(p, began)
	}
}

// wrote checks every guarded write that etcd accepted.
func (c *checks) wrote(p *process, d duty) {
	c.seen.Count[WriteAccepted]++
	why := ""
	switch {
	case d.mode == election.ModeFallback && !c.truth.created(c.w.keys.Acting(), d.token):
		why = "the acting key is gone"
	case d.mode == election.ModeFallback && c.truth.head() != nil:
		why = "somebody queues"
	case d.mode != election.ModeFallback && !c.candidate(d.token):
		why = "its key is gone"
	}
	if why != "" {
		c.fail("P2", "etcd accepted a write of %s with token %d, but %s", p.id, d.token, why)
	}
	if d.token < c.written {
		c.fail("P2", "etcd accepted a write of %s with token %d after one with %d", p.id, d.token, c.written)
	}
	c.written = max(c.written, d.token)
}

// candidate reports whether a candidate's key with that CreateRevision exists.
func (c *checks) candidate(token int64) bool {
	for _, kv := range c.truth.queue {
		if kv.CreateRevision == token {
			return true
		}
	}
	return false
}

// gaveUp checks that a member keeps its place in the queue unless it stops or was asked to give way.
func (c *checks) gaveUp(p *process, kv *mvccpb.KeyValue) {
	if p.dead.Load() {
		return
	}
	s := p.session()
	if s == nil || int64(s.ID()) != kv.Lease || !s.Period().Stands() {
		return
	}
	if token := kv.CreateRevision; c.works(p, token) {
		c.fail("P2", "%s gives its key %d up while work of that term is running", p.id, token)
	}
	if p.leaves || p.host.roles.observer || c.requests > 0 || slices.Contains(c.resigned, kv.CreateRevision) {
		return
	}
	c.fail("P3", "%s gave up its place in the queue (%d) without a reason", p.id, kv.CreateRevision)
}

// duty identifies the key that entitles a process to plan.
type duty struct {
	mode  election.Mode
	token int64
	lease int64
}

// dutyOf returns the duty that the guards check.
func (w *world) dutyOf(guards []txn.Guard) duty {
	d := duty{mode: election.ModeElection, token: guards[0].Is}
	if guards[0].Key == w.keys.Acting() {
		d.mode = election.ModeFallback
	} else {
		d.lease = w.keys.Parse(guards[0].Key).Lease
	}
	return d
}
