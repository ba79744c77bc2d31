//go:build unix

package chaos

import (
	"context"
	"math/rand/v2"

	"github.com/goverse/goverse/internal/test/faults"
	"github.com/goverse/goverse/internal/test/schedule"
)

// faultKind is one kind of fault. Its function do causes the fault, keeps it for a while, observes its effect, and
// undoes it. It returns an error if the effect is not the expected one. If there is no effect at all, it
// returns errNoEffect and the fault is not counted.
type faultKind struct {
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

// allFaultKinds returns all kinds of faults. Those on the path to etcd come from the catalogue in package faults.
func allFaultKinds() []faultKind {
	return []faultKind{
		{name: schedule.ProcessKilled, members: 1, do: killProcess},
		{name: schedule.ProcessStopped, do: stopProcess},
		{name: "process frozen past the TTL", do: freezeProcess},
		{name: schedule.ProcessPaused, members: 1, do: pauseProcess},
		alsoWithMembers(faultUntilLost(faults.CutOff)),
		faultUntilLost(faults.RequestsDropped),
		faultUntilLost(faults.AnswersDropped),
		slowingFault(faults.Delayed),
		slowingFault(faults.Throttled),
		{name: faults.Reset.Name, do: resetConnections},
		{name: schedule.PortRefuses, etcdWell: true, do: refuseConnections},
		{name: "packets between nodes dropped", etcdWell: true, do: dropNodePackets},
		{name: "refusing and cut off at once", etcdWell: true, do: isolateNode},
		{name: schedule.LeaseRevoked, etcdWell: true, do: revokeLease},
		{name: schedule.KeyDeleted, etcdWell: true, do: deleteKey},
		{name: schedule.LockKeyDeleted, etcdWell: true, do: deleteLockKey},
		{name: faults.WatchFrozen.Name, etcdWell: true, do: freezeWatch},
		{name: "etcd member killed", atEtcd: true, others: true, members: 1, do: killMember},
		{name: schedule.MemberStopped, atEtcd: true, others: true, members: 2, do: freezeMember},
		{name: "etcd member stutters", atEtcd: true, others: true, members: 2, do: stutterMember},
		{name: "etcd members cut off from each other", atEtcd: true, others: true, members: 2, do: cutMembers},
		{name: "etcd stands still", atEtcd: true, alone: true, do: freezeEtcd},
		{name: "etcd killed and restarted", atEtcd: true, do: restartEtcd},
		{name: schedule.CompactionUnderLoad, atEtcd: true, do: compactHistory},
	}
}

// alsoWithMembers returns k, which then also occurs in worlds about etcd's members.
func alsoWithMembers(k faultKind) faultKind {
	k.members = 1
	return k
}

// deckOfFaults returns the faults of one deck, in order.
func deckOfFaults(cfg Config) (out []faultKind) {
	for _, k := range allFaultKinds() {
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
