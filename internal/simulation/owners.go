package simulation

import (
	"slices"
	"time"
)

// owners is what the checks know of who served shards.
type owners struct {
	holds  []*process      // by shard, at this instant
	since  []time.Duration // by shard: since when two hold it at once, excused; 0: they do not
	two    []bool          // by shard: two do, at this instant
	epochs []int64         // by shard: the largest under which it was served
	last   []*process      // by shard: by whom

	granted    []int64 // by shard: the epoch in the newest map that a process wrote
	generation int64   // the largest of a map

	handed []int64  // revisions at which a hand altered or deleted the map
	forged []forged // reports that a hand wrote
	taints []int64  // incarnations of members whose records a hand altered
}

// forged is a report that a hand wrote in a member's name: that it has released all.
type forged struct {
	address     string
	incarnation int64
	until       int64 // the revision at which it was written over or deleted; 0: it stands
}

func newOwners(shards int) owners {
	return owners{holds: make([]*process, shards), since: make([]time.Duration, shards), two: make([]bool, shards),
		epochs: make([]int64, shards), last: make([]*process, shards),
		granted: make([]int64, shards)}
}

// hold checks that nobody else holds what a process holds whose session is valid. Holding
// is more than serving: it begins before the shard is served, and ends when the last call
// has left.
func (c *checks) hold(w *world, p *process) {
	s := p.keeper.session
	period := s.claim.Period()
	for shard := range p.holder.slots {
		x := &p.holder.slots[shard]
		if x.epoch == 0 || x.s != s || x.period != period {
			continue
		}
		if other := c.holds[shard]; other != nil {
			c.heldTwice(w, shard, other, p)
			continue
		}
		c.holds[shard] = p
	}
}

// heldTwice judges two processes that hold one shard.
func (c *checks) heldTwice(w *world, shard int, a, b *process) {
	older, newer := a.holder.slots[shard].epoch, b.holder.slots[shard].epoch
	if older > newer {
		a, b, older, newer = b, a, newer, older
	}
	by, excused := c.excusedBoth(a, b, older, newer)
	if !excused {
		c.fail("P5", "shard %d is held by %s under epoch %d, and by %s under %d", shard, a.id, older, b.id, newer)
		return
	}
	c.two[shard] = true
	e := &c.seen.Beside[by]
	if c.since[shard] == 0 {
		c.since[shard] = w.now
		e.Overlaps++
	}
	e.Longest = max(e.Longest, w.now-c.since[shard])
}

// excusedBoth is what the design leaves out: the older owner's session was taken; or a
// hand took the map, and with it whom the newer one had to wait for; or said in the older
// one's name that it has released.
func (c *checks) excusedBoth(a, b *process, older, newer int64) (besideBy, bool) {
	for i, p := range [2]*process{a, b} {
		if p.dead || p.keeper.session == nil {
			continue
		}
		if x := c.excuse(p.keeper.session, p.member.incarnation); x != nil && c.excuses(x, p, [2]*process{b, a}[i]) {
			if x.by == removal {
				return afterRemoval, true
			}
			return afterHand, true
		}
	}
	if slices.ContainsFunc(c.handed, func(r int64) bool { return older < r && r <= newer }) ||
		slices.ContainsFunc(c.forged, func(f forged) bool {
			return f.address == a.host.address && f.incarnation == a.member.incarnation && (f.until == 0 || newer < f.until)
		}) {
		return afterMapHand, true
	}
	return 0, false
}

// reported is called with every report that was written or deleted: the one before counts no
// more for maps that come later.
func (c *checks) reported(address string, revision int64) {
	for i := range c.forged {
		if f := &c.forged[i]; f.address == address && f.until == 0 {
			f.until = revision
		}
	}
}

// held ends the look at who holds what.
func (c *checks) held() {
	for shard := range c.holds {
		if !c.two[shard] {
			c.since[shard] = 0
		}
		c.holds[shard], c.two[shard] = nil, false
	}
}

// serves is called whenever a process begins to serve a shard. Its epoch is one that nobody
// had before, or the process's own still.
func (c *checks) serves(p *process, shard int) {
	x := &p.holder.slots[shard]
	if log := p.w.log; log != nil {
		log.of(p, "serves shard %d under epoch %d", shard, x.epoch)
	}
	if !x.counts() {
		return
	}
	c.count(ShardServed)
	last := c.last[shard]
	switch {
	case x.epoch > c.epochs[shard]:
		c.epochs[shard], c.last[shard] = x.epoch, p
	case x.epoch == c.epochs[shard] && last == p:
	default:
		if by, excused := c.excusedBoth(p, last, x.epoch, c.epochs[shard]); excused {
			c.seen.Beside[by].Late++
			return
		}
		c.fail("P5", "%s serves shard %d under epoch %d, after %s under %d", p.id, shard, x.epoch, last.id, c.epochs[shard])
	}
}
