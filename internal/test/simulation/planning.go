package simulation

import (
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// checkAcceptedMap checks every map that etcd accepted from a process: planning must have been the process's duty at
// that revision.
func (c *checks) checkAcceptedMap(p *process, d planningDuty, r *pb.TxnRequest) {
	c.w.Counts.Count(PlanAccepted)
	if d.mode == leaderelection.ModeFallback {
		c.w.Counts.Count(PlanActing)
	} else if d.token != p.facts.token || p.facts.over >= 0 {
		c.w.Counts.Count(PlanOutside)
	}
	if why := c.plannerDefect(d); why != "" {
		c.fail("P5", "etcd accepted a map of %s with token %d, but %s", p.id, d.token, why)
	}
	_, value := c.w.findPut(r, state.KindShardMap)
	m, err := sharding.DecodeMap(value)
	if err != nil {
		c.fail("P5", "etcd accepted a map of %s that is unreadable: %v", p.id, err)
		return
	}
	m = m.NotBefore(c.truth.getKey(c.w.keys.ShardMap()).CreateRevision)
	if g := m.Generation(); g <= c.generation {
		c.fail("P5", "etcd accepted a map of generation %d from %s, after one of %d", g, p.id, c.generation)
	}
	c.generation = m.Generation()
	for n := range c.w.shards {
		epoch := m.Epoch(n)
		if epoch < c.granted[n] {
			c.fail("P5", "the map of %s assigns shard %d under epoch %d, after one of %d",
				p.id, n, epoch, c.granted[n])
		}
		c.granted[n] = epoch
	}
}

// countRefusedMap counts every map that etcd refused.
func (c *checks) countRefusedMap(d planningDuty) {
	if c.plannerDefect(d) != "" {
		c.w.Counts.Count(PlanTooLate)
	} else {
		c.w.Counts.Count(PlanOvertaken)
	}
}

// plannerDefect returns the reason why planning is not the duty of the process with that key, or "" if it is. It
// is the duty of the first node in the queue, whether it leads or not.
func (c *checks) plannerDefect(d planningDuty) string {
	keys := c.w.keys
	if d.mode == leaderelection.ModeFallback {
		switch {
		case !c.truth.keyExists(keys.Acting(), d.token):
			return "the acting key is gone"
		case c.truth.firstCandidate() != nil:
			return "a candidate queues"
		}
		return ""
	}
	if !c.truth.keyExists(keys.Candidate(d.lease), d.token) {
		return "its key is gone"
	}
	for key, kv := range c.truth.queue {
		p := c.processOnLease(keys.Parse(key).Lease)
		switch {
		case kv.CreateRevision >= d.token || p == nil || p.host.roles.electionOnly ||
			!c.truth.keyExists(keys.Node(p.host.address), p.facts.incarnation):
		case slices.Contains(c.taints, p.facts.incarnation):
			c.w.Counts.Count(PlanBeside) // it was no member for a moment
		default:
			return fmt.Sprintf("%s queues before it", p.id)
		}
	}
	return ""
}

// planIdle tracks since when a leader has had shards to move and has not written a map over the one it sees.
type planIdle struct {
	view  *state.Snapshot
	since time.Duration // 0 if it has nothing to plan
}

// checkPlannerActive checks that a leader does not leave shards unmoved. Unless it is hindered, it must have written a
// map by the time of its slowest retry. A process that takes part in the election only never plans.
func (c *checks) checkPlannerActive(x *claim) {
	p, k := x.p, &x.p.facts.sleeps
	if x.view == nil || x.view.Stale || p.host.roles.electionOnly || p.host.wasHindered(c.w.Now()) {
		*k = planIdle{}
		return
	}
	if x.view != k.view {
		_, o := shardplan.New(c.w.planSettings(p.host.roles.shards)).Decide(x.view, c.w.Began.Add(c.w.Now()))
		switch {
		case o.Plan.Assigned+o.Plan.Drained == 0:
			k.since = 0
		case k.view == nil || k.since == 0 || k.view.ShardMap != x.view.ShardMap:
			k.since = c.w.Now()
		}
		k.view = x.view
	}
	longest := shardplan.WriteRetry.Delay(100, 1) + requestTimeout
	if k.since != 0 && c.w.Now()-k.since > longest && !p.host.wasHindered(k.since) {
		c.fail("P5", "%s leads and has not planned shards without an owner, or shards to drain, for %v", p.id,
			c.w.Now()-k.since)
	}
}

// processOnLease returns the process that last registered on a lease, or nil.
func (c *checks) processOnLease(lease int64) *process {
	for _, h := range c.w.hosts {
		if p := h.process; p != nil && p.facts.lease == lease {
			return p
		}
	}
	return nil
}

// countStragglers counts the written reports that name stragglers.
func (c *checks) countStragglers(value []byte) {
	if r, err := sharding.DecodeReport(value); err == nil && len(r.Busy) > 0 {
		c.w.Counts.Count(Straggled)
	}
}
