package simulation

import (
	"fmt"

	"github.com/goverse/goverse/cluster/sharding"
	"github.com/goverse/goverse/cluster/state"
)

// dealt is told of every map that etcd accepted from a process: planning was its duty at
// that revision.
func (c *checks) dealt(w *world, p *process, d duty, plan sharding.Result) {
	c.count(PlanAccepted)
	c.seen.Count[ShardGiven] += plan.Given
	c.seen.Count[ShardEmptied] += plan.Emptied
	c.seen.Count[ShardLevelled] += plan.Levelled
	if why := w.notPlanner(d); why != "" {
		c.fail("P5", "etcd accepted a map of %s with token %d, but %s", p.id, d.token, why)
	}
	if g := plan.Map.Generation(); g <= c.generation {
		c.fail("P5", "etcd accepted a map of generation %d from %s, after one of %d", g, p.id, c.generation)
	}
	c.generation = max(c.generation, plan.Map.Generation())
}

// notPlanner is why planning is not the duty of who has that key, "" if it is: the
// leader's, or beside an outside candidate who leads the first member's in the queue.
func (w *world) notPlanner(d duty) string {
	e := w.etcd
	if d.mode == state.ModeFallback {
		switch kv := e.get(w.keys.Acting()); {
		case kv == nil || kv.CreateRevision != d.token:
			return "the acting key is gone"
		case w.head() != nil:
			return "somebody queues"
		}
		return ""
	}
	if kv := e.get(w.keys.Candidate(d.lease)); kv == nil || kv.CreateRevision != d.token {
		return "its key is gone"
	}
	truth := e.read()
	for _, q := range state.Build(w.keys, clusterID, truth.revision, truth.found).Queue {
		p := w.sessionOf(q.KeyLease)
		if q.CreateRevision < d.token && p != nil && p.member.incarnation != 0 {
			return fmt.Sprintf("%s queues before it", p.id)
		}
	}
	return ""
}

// sessionOf is the process whose present session is on a lease, nil if it is nobody's.
func (w *world) sessionOf(lease int64) *process {
	for _, h := range w.hosts {
		if p := h.process; p != nil && p.keeper.session != nil && p.keeper.session.lease == lease {
			return p
		}
	}
	return nil
}

// stoppedWell is told that a process has stopped. Whoever had handed its shards over owns
// none.
func (c *checks) stoppedWell(p *process) {
	kv := p.w.etcd.get(p.w.keys.ShardMap())
	if kv == nil || !p.leaving.emptied || p.leaving.incarnation == 0 {
		return
	}
	m, err := sharding.Decode(kv.Value)
	if err != nil {
		return
	}
	if n := owned(m, sharding.Owner{Address: p.host.address, Incarnation: p.leaving.incarnation}); n > 0 {
		c.fail("P5", "%s has stopped, and %d shards are still its", p.id, n)
	}
}
