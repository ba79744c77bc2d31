package cluster

import (
	"time"

	"github.com/goverse/goverse/cluster/stats"
)

// Stats holds figures that a node counts from its start on, in addition to its [Status]. Figures about shards and
// objects are in shard.Stats and objects.Stats.
type Stats struct {
	// Elected counts the leaders that this node saw elected after another one, with the time without a leader.
	// That time begins with the first sign in etcd that the former leader was gone: its accusation, or the end of
	// its key. It does not include the time for which a lease outlived its host.
	Elected stats.Durations `json:"elected"`
	// Lost counts the terms of the cluster's leaders that this node saw end, by reason; see event.LeaderLost.
	Lost map[string]int64 `json:"lost"`
	// Terms counts this node's own terms that ended, with their durations.
	Terms stats.Durations `json:"terms"`
	// TermBegan is the time at which this node learned that it leads, zero while it does not.
	TermBegan time.Time `json:"term_began"`
	// Renewals counts the successful renewals of this node's sessions, with their durations; each consists of a
	// renewal at etcd and a read that confirms it. RenewalsFailed counts the others.
	Renewals       stats.Durations `json:"renewals"`
	RenewalsFailed int64           `json:"renewals_failed"`
}

// Stats returns the node's figures. It does not block. It is zero before Start has returned and after Stop.
func (c *Cluster) Stats() Stats {
	p := c.parts.Load()
	if p == nil {
		return Stats{}
	}
	saw := p.events.Failovers()
	st := Stats{Elected: saw.Elected, Lost: saw.Lost, Terms: p.Consensus.Election().Lasted()}
	if t, leads := p.Consensus.Election().Term(); leads {
		st.TermBegan = t.AcquiredAt()
	}
	st.Renewals, st.RenewalsFailed = p.Keeper.Renewals().Read()
	return st
}
