//go:build unix

package chaos

import (
	"context"
	"math/rand/v2"

	"github.com/goverse/goverse/internal/test/faults"
)

// kind is one kind of fault. Its function do causes the fault, keeps it for a while, observes its effect, and
// undoes it. It returns an error if the effect is not the expected one. If there is no effect at all, it
// returns errNoEffect and the fault is not counted.
type kind struct {
	name string
	// atEtcd reports that it affects etcd and so every node; at most one such fault is active at a time.
	atEtcd bool
	// etcdWell reports that its expected effect requires etcd to answer.
	etcdWell bool
	// others reports that it requires other members of etcd to continue; alone, that there must be none.
	others, alone bool
	// members is the number of times per deck that it occurs in worlds about etcd's members.
	members int
	do      func(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error
}

// kinds returns all kinds of faults. Those on the path to etcd come from the catalogue in package faults.
func kinds() []kind {
	return []kind{
		{name: "process killed", members: 1, do: killed},
		{name: "process stopped", do: stopped},
		{name: "process frozen past the TTL", do: frozen},
		{name: "process paused", members: 1, do: paused},
		alsoOfMembers(untilSessionLost(faults.CutOff)),
		untilSessionLost(faults.RequestsDropped),
		untilSessionLost(faults.AnswersDropped),
		forAWhile(faults.Delayed),
		forAWhile(faults.Throttled),
		{name: faults.Reset.Name, do: reset},
		{name: "node's port refuses", etcdWell: true, do: refusing},
		{name: "packets between nodes dropped", etcdWell: true, do: unreachable},
		{name: "refusing and cut off at once", etcdWell: true, do: outcast},
		{name: "lease revoked out of band", etcdWell: true, do: leaseRevoked},
		{name: "key deleted out of band", etcdWell: true, do: keyDeleted},
		{name: "lock's key deleted out of band", etcdWell: true, do: lockDeleted},
		{name: faults.WatchFrozen.Name, etcdWell: true, do: watchFrozen},
		{name: "etcd member killed", atEtcd: true, others: true, members: 1, do: memberKilled},
		{name: "etcd member stopped", atEtcd: true, others: true, members: 2, do: memberStopped},
		{name: "etcd member stutters", atEtcd: true, others: true, members: 2, do: memberStutters},
		{name: "etcd members cut off from each other", atEtcd: true, others: true, members: 2, do: membersCutOff},
		{name: "etcd stands still", atEtcd: true, alone: true, do: etcdStopped},
		{name: "etcd killed and restarted", atEtcd: true, do: etcdRestarted},
		{name: "compaction under load", atEtcd: true, do: compacted},
	}
}

// alsoOfMembers returns k, which then also occurs in worlds about etcd's members.
func alsoOfMembers(k kind) kind {
	k.members = 1
	return k
}

// deck returns the faults of one deck, in order.
func deck(cfg Config) (out []kind) {
	for _, k := range kinds() {
		if one := cfg.EtcdMembers == 1; one && k.others || !one && k.alone {
			continue
		}
		times := 1
		if cfg.Members {
			times = k.members
		}
		for range times {
			out = append(out, k)
		}
	}
	return out
}
