package simulation

import (
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// checkAcceptedMap checks every map that etcd accepted from a process: planning must have been the process's duty at
// that revision.
func (c *checks) checkAcceptedMap(p *process, d duty, r *pb.TxnRequest) {
	c.seen.Count[PlanAccepted]++
	if d.mode == election.ModeFallback {
		c.seen.Count[PlanActing]++
	} else if d.token != p.known.token || p.known.over >= 0 {
		c.seen.Count[PlanOutside]++
	}
	if why := c.notPlanner(d); why != "" {
		c.fail("P5", "etcd accepted a map of %s with token %d, but %s", p.id, d.token, why)
	}
	_, value := c.w.puts(r, state.KindShardMap)
	m, err := sharding.Decode(value)
	if err != nil {
		c.fail("P5", "etcd accepted a map of %s that nobody can read: %v", p.id, err)
		return
	}
	m = m.NotBefore(c.truth.get(c.w.keys.ShardMap()).CreateRevision)
	if g := m.Generation(); g <= c.generation {
		c.fail("P5", "etcd accepted a map of generation %d from %s, after one of %d", g, p.id, c.generation)
	}
	c.generation = m.Generation()
	for n := range c.w.shards {
		epoch := m.Epoch(n)
		if epoch < c.granted[n] {
			c.fail("P5", "the map of %s gives shard %d away under epoch %d, after one of %d",
				p.id, n, epoch, c.granted[n])
		}
		c.granted[n] = epoch
	}
}

// refused counts every map that etcd refused.
func (c *checks) refused(d duty) {
	if c.notPlanner(d) != "" {
		c.seen.Count[PlanTooLate]++
	} else {
		c.seen.Count[PlanOvertaken]++
	}
}

// notPlanner returns the reason why planning is not the duty of the process with that key, or "" if it is. It
// is the duty of the leader or, beside a leading outside candidate, of the first member in the queue.
func (c *checks) notPlanner(d duty) string {
	keys := c.w.keys
	if d.mode == election.ModeFallback {
		switch {
		case !c.truth.created(keys.Acting(), d.token):
			return "the acting key is gone"
		case c.truth.head() != nil:
			return "somebody queues"
		}
		return ""
	}
	if !c.truth.created(keys.Candidate(d.lease), d.token) {
		return "its key is gone"
	}
	for key, kv := range c.truth.queue {
		p := c.onLease(keys.Parse(key).Lease)
		switch {
		case kv.CreateRevision >= d.token || p == nil ||
			!c.truth.created(keys.Node(p.host.address), p.known.incarnation):
		case slices.Contains(c.taints, p.known.incarnation):
			c.seen.Count[PlanBeside]++ // it was no member for a moment
		default:
			return fmt.Sprintf("%s queues before it", p.id)
		}
	}
	return ""
}

// sleeps tracks since when a leader has had shards to move and has not written a map over the one it sees.
type sleeps struct {
	view  *state.Snapshot
	since time.Duration // 0 if it has nothing to plan
}

// checkPlannerActive checks that a leader does not leave shards unmoved. Unless it is hindered, it must have written a
// map by the time of its slowest retry.
func (c *checks) checkPlannerActive(x *claim) {
	p, k := x.p, &x.p.known.sleeps
	if x.view == nil || x.view.Stale || p.host.hindered(c.w.now()) {
		*k = sleeps{}
		return
	}
	if x.view != k.view {
		_, o := shardplan.New(c.w.planning(p.host.roles.shards)).Look(x.view, c.w.began.Add(c.w.now()))
		switch {
		case o.Plan.Assigned+o.Plan.Drained == 0:
			k.since = 0
		case k.view == nil || k.since == 0 || k.view.ShardMap != x.view.ShardMap:
			k.since = c.w.now()
		}
		k.view = x.view
	}
	longest := shardplan.Retry.Delay(100, 1) + requestTimeout
	if k.since != 0 && c.w.now()-k.since > longest && !p.host.hindered(k.since) {
		c.fail("P5", "%s leads and sleeps over shards without an owner, or that are to leave theirs, for %v", p.id,
			c.w.now()-k.since)
	}
}

// onLease returns the process that last registered on a lease, or nil.
func (c *checks) onLease(lease int64) *process {
	for _, h := range c.w.hosts {
		if p := h.process; p != nil && p.known.lease == lease {
			return p
		}
	}
	return nil
}

// countStragglers counts the written reports that name stragglers.
func (c *checks) countStragglers(value []byte) {
	if r, err := sharding.DecodeReport(value); err == nil && len(r.Busy) > 0 {
		c.seen.Count[Straggled]++
	}
}

// handedOver records the handover of a stopping process's shards.
type handedOver struct {
	drained     bool
	incarnation int64 // the process's own
	generation  int64 // of the map it saw last
}

// handedOver is called when a stopping process has waited for other owners to take its shards.
func (c *checks) handedOver(p *process, err error) error {
	s := p.core.Mirror.Snapshot()
	c.mu.Lock()
	defer c.mu.Unlock()
	own := s.Member(p.host.address)
	switch {
	case err != nil || own == nil || own.Incarnation != p.known.incarnation:
		c.seen.Count[StopCut]++
	case p.core.Owns(s):
		c.seen.Count[StopLast]++
	default:
		c.seen.Count[StopDrained]++
		p.known.stops = handedOver{drained: true, incarnation: own.Incarnation}
		if m := s.Map(); m != nil {
			p.known.stops.generation = m.Generation()
		}
	}
	return err
}

// stoppedWell is called when a process has stopped. It checks that the process owns none of the shards it
// handed over. A planner that had not seen it leave may have assigned it a shard later; that shard is
// reassigned.
func (c *checks) stoppedWell(p *process, last *etcdsession.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.dead.Load() {
		return
	}
	if kv := c.truth.get(c.w.keys.Node(p.host.address)); last != nil && kv != nil && kv.Lease == int64(last.ID()) {
		c.fail("P4", "%s has stopped, and is registered still", p.id)
	}
	kv := c.truth.get(c.w.keys.ShardMap())
	if kv == nil || !p.known.stops.drained {
		return
	}
	m, err := sharding.Decode(kv.Value)
	if err != nil {
		return
	}
	me := sharding.Owner{Address: p.host.address, Incarnation: p.known.stops.incarnation}
	for n := range m.Shards() {
		owner, _ := m.Owner(n)
		if owner == me && max(m.Epoch(n), kv.CreateRevision) <= p.known.stops.generation {
			c.fail("P5", "%s has stopped, and shard %d is still its", p.id, n)
		}
	}
}
