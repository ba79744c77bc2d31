package cluster

import (
	"time"

	"github.com/goverse/goverse/cluster/stats"
)

// Stats are figures that a node counts since its start, beside those of its [Status]. Its shards and objects have
// theirs: shard.Stats and objects.Stats.
type Stats struct {
	// Elected are the leaders that this node saw elected after another one, and for how long nobody led: from the first
	// sign in etcd that the former one was gone, which was its accusation or the end of its key. How long a lease
	// outlived a host that was gone is not in it.
	Elected stats.Durations
	// Lost is how many terms of the cluster's leaders this node saw end, by reason: see event.LeaderLost.
	Lost map[string]int64
	// Terms are this node's own terms that ended, and how long they lasted.
	Terms stats.Durations
	// TermBegan is when this node learned that it leads, zero while it does not.
	TermBegan time.Time
	// Renewals are the renewals of this node's sessions that counted, and how long they took: a renewal at etcd, and
	// the read that confirms it. RenewalsFailed are the others.
	Renewals       stats.Durations
	RenewalsFailed int64
}

// Stats does not block. It is zero before Start has returned and after Stop.
func (c *Cluster) Stats() Stats {
	p := c.parts.Load()
	if p == nil {
		return Stats{}
	}
	saw := p.events.Failovers()
	st := Stats{Elected: saw.Elected, Lost: saw.Lost, Terms: p.manager.Election().Lasted()}
	if t := p.manager.Election().Term(); t != nil {
		st.TermBegan = t.AcquiredAt()
	}
	st.Renewals, st.RenewalsFailed = p.keeper.Renewals().Read()
	return st
}
