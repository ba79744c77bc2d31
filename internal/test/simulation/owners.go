package simulation

import (
	"slices"
	"time"

	"github.com/goverse/goverse/internal/test/invariant"
)

// shardOwners holds the checks' knowledge of the serving of shards.
type shardOwners struct {
	holds  []*claim                     // by shard, at this instant
	since  []time.Duration              // by shard: since when two hold it at once, excused; 0 if they do not
	two    []bool                       // by shard: two hold it at this instant
	served []invariant.Tokens[*process] // by shard: the epochs under which it was served

	granted    []int64 // by shard: the epoch in the newest map that a process wrote
	generation int64   // the largest of a map

	outOfBandMaps []int64        // revisions of out-of-band changes of the map
	forged        []forgedReport // out-of-band reports
}

// forgedReport is a report that was written out of band in a member's name: that it has released all shards.
type forgedReport struct {
	address     string
	incarnation int64
	until       int64 // revision at which it was overwritten or deleted; 0 if it still exists
}

func newOwners(shards int) shardOwners {
	return shardOwners{holds: make([]*claim, shards), since: make([]time.Duration, shards), two: make([]bool, shards),
		served: make([]invariant.Tokens[*process], shards), granted: make([]int64, shards)}
}

// checkHold checks that no other process holds a shard that a process with a valid session holds. A process holds a
// shard from before it serves it until the last call has left.
func (c *checks) checkHold(x *claim) {
	for n, epoch := range x.shards {
		if epoch == 0 {
			continue
		}
		if other := c.holds[n]; other != nil {
			c.checkHeldTwice(n, other, x)
		} else {
			c.holds[n] = x
		}
		if x.served[n] && x.p.facts.serves[n] != epoch {
			x.p.facts.serves[n] = epoch
			c.checkServing(x.p, x, n)
		}
	}
}

// checkHeldTwice judges two processes that hold one shard.
func (c *checks) checkHeldTwice(n int, a, b *claim) {
	if a.shards[n] > b.shards[n] {
		a, b = b, a
	}
	older, newer := a.shards[n], b.shards[n]
	by, excused := c.findBesideCase(a.p, b.p, older, newer)
	if !excused {
		c.fail("P5", "shard %d is held by %s under epoch %d, and by %s under %d", n, a.p.id, older, b.p.id, newer)
		return
	}
	c.two[n] = true
	c.countLasting(string(by), &c.since[n])
}

// findBesideCase returns the exempt case in which two processes may hold a shard, if there is one. The older
// owner's session was taken. Or the map was changed out of band, and no longer named the owner that the newer
// one had to wait for. Or an out-of-band report claimed that the older owner had released its shards.
func (c *checks) findBesideCase(a, b *process, older, newer int64) (besideCause, bool) {
	for i, p := range [2]*process{a, b} {
		s := p.session()
		if p.dead.Load() || s == nil {
			continue
		}
		if t := c.findLoss(p, s, p.facts.incarnation); t != nil && c.lossExcuses(t, p, [2]*process{b, a}[i]) {
			if t.by == byRemoval {
				return besideRemoval, true
			}
			return besideOutOfBand, true
		}
	}
	if slices.ContainsFunc(c.outOfBandMaps, func(r int64) bool { return older < r && r <= newer }) ||
		slices.ContainsFunc(c.forged, func(f forgedReport) bool {
			return f.address == a.host.address && f.incarnation == a.facts.incarnation && (f.until == 0 || newer < f.until)
		}) {
		return besideMapChange, true
	}
	return "", false
}

// recordReport is called with every report that was written or deleted. The report before it no longer counts for
// later maps.
func (c *checks) recordReport(address string, revision int64) {
	for i := range c.forged {
		if f := &c.forged[i]; f.address == address && f.until == 0 {
			f.until = revision
		}
	}
}

// resetHolders resets the holders after all claims were checked.
func (c *checks) resetHolders() {
	for n := range c.holds {
		if !c.two[n] {
			c.since[n] = 0
		}
		c.holds[n], c.two[n] = nil, false
	}
}

// checkServing checks a process that begins to serve a shard. Its epoch must be new, or still the process's own.
func (c *checks) checkServing(p *process, x *claim, n int) {
	epoch := x.shards[n]
	p.logf("serves shard %d under epoch %d", n, epoch)
	c.w.Counts.Count(ShardServed)
	switch greatest, last := c.served[n].Greatest(false); {
	case epoch > greatest:
		c.served[n].Add(epoch, false, p)
	case epoch == greatest && last == p:
	default:
		if by, excused := c.findBesideCase(p, last, epoch, greatest); excused {
			c.w.Counts.Count(by.late())
			return
		}
		c.fail("P5", "%s serves shard %d under epoch %d, after %s under %d", p.id, n, epoch, last.id, greatest)
	}
}
