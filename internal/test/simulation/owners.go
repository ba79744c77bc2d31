package simulation

import (
	"slices"
	"time"
)

// owners is what the checks know of who served shards.
type owners struct {
	holds  []*claim        // by shard, at this instant
	since  []time.Duration // by shard: since when two hold it at once, excused; 0: they do not
	two    []bool          // by shard: two do, at this instant
	epochs []int64         // by shard: the largest under which it was served
	last   []*process      // by shard: by whom

	granted    []int64 // by shard: the epoch in the newest map that a process wrote
	generation int64   // the largest of a map

	handed []int64  // revisions at which a hand altered or deleted the map
	forged []forged // reports that a hand wrote
}

// forged is a report that a hand wrote in a member's name: that it has released all.
type forged struct {
	address     string
	incarnation int64
	until       int64 // the revision at which it was written over or deleted; 0: it stands
}

func newOwners(shards int) owners {
	return owners{holds: make([]*claim, shards), since: make([]time.Duration, shards), two: make([]bool, shards),
		epochs: make([]int64, shards), last: make([]*process, shards), granted: make([]int64, shards)}
}

// hold checks that nobody else holds what a process holds whose session is valid. Holding
// is more than serving: it begins before the shard is served, and ends when the last call
// has left.
func (c *checks) hold(x *claim) {
	for n, epoch := range x.shards {
		if epoch == 0 {
			continue
		}
		if other := c.holds[n]; other != nil {
			c.heldTwice(n, other, x)
		} else {
			c.holds[n] = x
		}
		if x.served[n] && x.p.known.serves[n] != epoch {
			x.p.known.serves[n] = epoch
			c.serves(x.p, x, n)
		}
	}
}

// heldTwice judges two processes that hold one shard.
func (c *checks) heldTwice(n int, a, b *claim) {
	if a.shards[n] > b.shards[n] {
		a, b = b, a
	}
	older, newer := a.shards[n], b.shards[n]
	by, excused := c.excusedBoth(a.p, b.p, older, newer)
	if !excused {
		c.fail("P5", "shard %d is held by %s under epoch %d, and by %s under %d", n, a.p.id, older, b.p.id, newer)
		return
	}
	c.two[n] = true
	e := &c.seen.Beside[by]
	if c.since[n] == 0 {
		c.since[n] = c.w.now()
		e.Overlaps++
	}
	e.Longest = max(e.Longest, c.w.now()-c.since[n])
}

// excusedBoth is what the design leaves out: the older owner's session was taken; or a
// hand took the map, and with it whom the newer one had to wait for; or said in the older
// one's name that it has released.
func (c *checks) excusedBoth(a, b *process, older, newer int64) (besideBy, bool) {
	for i, p := range [2]*process{a, b} {
		s := p.session()
		if p.dead.Load() || s == nil {
			continue
		}
		if t := c.excuse(p, s, p.known.incarnation); t != nil && c.excuses(t, p, [2]*process{b, a}[i]) {
			if t.by == removal {
				return afterRemoval, true
			}
			return afterHand, true
		}
	}
	if slices.ContainsFunc(c.handed, func(r int64) bool { return older < r && r <= newer }) ||
		slices.ContainsFunc(c.forged, func(f forged) bool {
			return f.address == a.host.address && f.incarnation == a.known.incarnation && (f.until == 0 || newer < f.until)
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
	for n := range c.holds {
		if !c.two[n] {
			c.since[n] = 0
		}
		c.holds[n], c.two[n] = nil, false
	}
}

// serves is called whenever a process begins to serve a shard. Its epoch is one that nobody
// had before, or the process's own still.
func (c *checks) serves(p *process, x *claim, n int) {
	epoch := x.shards[n]
	c.w.log.of(p, "serves shard %d under epoch %d", n, epoch)
	c.seen.Count[ShardServed]++
	last := c.last[n]
	switch {
	case epoch > c.epochs[n]:
		c.epochs[n], c.last[n] = epoch, p
	case epoch == c.epochs[n] && last == p:
	default:
		if by, excused := c.excusedBoth(p, last, epoch, c.epochs[n]); excused {
			c.seen.Beside[by].Late++
			return
		}
		c.fail("P5", "%s serves shard %d under epoch %d, after %s under %d", p.id, n, epoch, last.id, c.epochs[n])
	}
}
