package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// requestStop asks the process to stop.
func (p *process) requestStop() {
	if p.stopRequested {
		return
	}
	p.w.alter(func() {
		p.stopRequested = true
		p.facts.stop.requested, p.facts.stop.session = p.w.checks.truth.revision, p.session()
		if s := p.session(); s != nil {
			p.facts.stop.period = s.Period()
		}
	})
	p.logf("begins to stop")
	p.stopRunning()
}

// stopPart stops the process's part, and ends the process. If the process has died, the stop has no effect on others.
func (p *process) stopPart() {
	last, err := p.part.leave()
	p.w.checks.checkStop(p, last, err)
	p.w.Mu.Lock()
	defer p.w.Mu.Unlock()
	p.killProcess(false)
}

// leave implements part. It stops the node as Cluster.Stop does.
func (n nodePart) leave() (last *etcdsession.Session, err error) {
	p := n.p
	r := n.Stop(p.ctx, member.StopHooks{
		EndWork:     func(_ context.Context, r *member.StopReport) { p.w.checks.checkHandover(p, r) },
		StopServing: p.stopServing,
		WriteLast:   func(context.Context) { last = p.session() },
	})
	return last, r.Left
}

// stopServing simulates the server's part in a stop.
func (p *process) stopServing(ctx context.Context, r *member.StopReport) {
	p.w.checks.checkNotServing(p, r)
	p.w.Mu.Lock()
	p.node.closeStreams(true)
	p.w.Mu.Unlock()
	if p.host.roles.drains {
		<-ctx.Done() // a call takes forever
	}
	wait.For(ctx, p.drawDelay("serves to the end", 200*time.Millisecond))
	r.RecordStep("stop serving", context.Cause(ctx))
	p.recordWorkEnded()
}

// recordWorkEnded records whether the process has ended all its work.
func (p *process) recordWorkEnded() {
	p.w.alter(func() { p.facts.stop.workEnded = !p.user.works() })
}

// stopFacts holds the checks' knowledge of a process's stop.
type stopFacts struct {
	requested  int64 // etcd's revision when the process was asked to stop
	session    *etcdsession.Session
	period     *etcdsession.Period
	workEnded  bool           // all its work has ended
	owner      sharding.Owner // the process, as owner of shards
	handedOver bool           // other members own its shards
	generation int64          // of the map that it saw then
}

// examineSession reports whether the session that the process had when it was asked to stop has been valid ever since,
// and whether the process itself has closed it.
func (f *stopFacts) examineSession() (valid, closed bool) {
	if f.session == nil {
		return false, false
	}
	lost, ended := errors.AsType[*session.LostError](f.session.Err())
	return !ended && f.session.Period() == f.period && f.period.ValidDespitePause(),
		ended && lost.Reason == session.ReasonClosed
}

// checkHandover is called when a stopping process has released its shards. Others must own them, if they could take
// them.
func (c *checks) checkHandover(p *process, r *member.StopReport) {
	s := p.registered.Mirror.Snapshot()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.stopRequested || p.dead.Load() {
		return
	}
	stop := &p.facts.stop
	valid, closed := stop.examineSession()
	if closed {
		c.fail("P4", "%s ends its session before its work", p.id)
	}
	if s == nil || !r.Announced || !valid {
		c.w.Counts.Count(StopCut)
		return
	}
	stop.owner = sharding.Owner{Address: p.host.address, Incarnation: p.facts.incarnation}
	own, m := s.Member(p.host.address), s.Map()
	switch {
	case own == nil || own.Incarnation != stop.owner.Incarnation:
		c.w.Counts.Count(StopCut)
	case m == nil || countOwned(m, stop.owner) == 0:
		c.w.Counts.Count(StopDrained)
		stop.handedOver = true
		if m != nil {
			stop.generation = m.Generation()
		}
	case len(r.CutShort) > 0:
		c.w.Counts.Count(StopCut)
	default:
		c.w.Counts.Count(StopLast)
		if p.couldHandOver(s) {
			c.fail("P4", "%s stops with shards that others could take", p.id)
		}
	}
}

// couldHandOver reports whether other members could plan and take the process's shards ever since it was asked to
// stop.
func (p *process) couldHandOver(s *state.Snapshot) bool {
	stayed := func(o sharding.Owner) bool {
		return o.Address != p.host.address && o.Incarnation < p.facts.stop.requested
	}
	takers := slices.ContainsFunc(shardplan.PlanMembers(s, p.w.planSettings(p.w.shards)), func(m sharding.Member) bool {
		return !m.Excluded && stayed(m.Owner)
	})
	planners := slices.ContainsFunc(s.Queue, func(q *state.Candidate) bool {
		m := s.MemberOf(q)
		return m != nil && !m.Stopping && !m.ElectionOnly && q.CreateRevision < p.facts.stop.requested &&
			stayed(sharding.Owner{Address: m.Address, Incarnation: m.Incarnation})
	})
	return takers && planners
}

// checkNotServing checks that a process serves no shard any more when its server stops.
func (c *checks) checkNotServing(p *process, r *member.StopReport) {
	if p.shards == nil || len(r.CutShort) > 0 {
		return
	}
	for n := range p.shards.Count() {
		if _, serves := p.shards.Serves(n); serves {
			c.mu.Lock()
			c.fail("P5", "%s stops serving while it serves shard %d", p.id, n)
			c.mu.Unlock()
		}
	}
}

// checkLeftRecord checks a process's record that says that others need not wait for it.
func (c *checks) checkLeftRecord(p *process, value []byte) {
	if record, err := state.DecodeRecord(value); err != nil || !record.Left {
		return
	}
	c.w.Counts.Count(StopRecorded)
	if !p.facts.stop.workEnded {
		c.fail("P1", "%s says that it has left while it is working", p.id)
	}
}

// checkStop is called when a process has stopped. It checks that the process is not registered any more, and that it
// owns none of the shards it handed over. A planner that had not seen it leave may have assigned it a shard later;
// that shard is reassigned.
func (c *checks) checkStop(p *process, last *etcdsession.Session, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.stopRequested {
		return
	}
	if err != nil || p.ctx.Err() != nil {
		c.w.Counts.Count(StopSilent)
		return
	}
	if kv := c.truth.getKey(c.w.keys.Node(p.host.address)); last != nil && kv != nil && kv.Lease == int64(last.ID()) {
		c.fail("P4", "%s has stopped, and is registered still", p.id)
	}
	kv := c.truth.getKey(c.w.keys.ShardMap())
	if kv == nil || !p.facts.stop.handedOver {
		return
	}
	m, err := sharding.DecodeMap(kv.Value)
	if err != nil {
		return
	}
	for n := range m.Shards() {
		owner, _ := m.Owner(n)
		if owner == p.facts.stop.owner && max(m.Epoch(n), kv.CreateRevision) <= p.facts.stop.generation {
			c.fail("P5", "%s has stopped, and shard %d is still its", p.id, n)
		}
	}
}
