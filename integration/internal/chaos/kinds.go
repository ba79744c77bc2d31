//go:build unix

package chaos

import (
	"context"
	"math/rand/v2"

	"github.com/goverse/goverse/clustertest/fault"
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
	// withNode reports that a fault at etcd also affects a node.
	withNode bool
	// needsSilence reports that it occurs only in worlds with a silence time-out.
	needsSilence bool
	// silences reports that the node may be removed for its silence: its watchers do not hear it, or it does not reach
	// etcd to refute them.
	silences bool
	// partners, if set, returns the other nodes that it affects.
	partners func(w *world, n *chaosNode, rnd *rand.Rand) []*chaosNode
	// members is the number of times per deck that it occurs in worlds about etcd's members.
	members int
	do      func(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error
}

// allFaultKinds returns all kinds of faults. Those on the path to etcd come from the catalogue in package faults.
func allFaultKinds() []faultKind {
	return []faultKind{
		{name: schedule.ProcessKilled, members: 1, silences: true, do: killProcess},
		{name: schedule.ProcessStopped, silences: true, do: stopProcess},
		{name: "process frozen past the TTL", silences: true, do: freezeProcess},
		{name: schedule.ProcessPaused, members: 1, silences: true, do: pauseProcess},
		alsoWithMembers(faultUntilLost(faults.CutOff)),
		faultUntilLost(faults.RequestsDropped),
		faultUntilLost(faults.AnswersDropped),
		slowingFault(faults.Delayed),
		slowingFault(faults.Throttled),
		{name: faults.Reset.Name, do: resetConnections},
		{name: schedule.PortRefuses, etcdWell: true, do: refuseConnections},
		{name: "packets between nodes dropped", etcdWell: true, do: dropNodePackets},
		{name: "refusing and cut off at once", etcdWell: true, silences: true, do: isolateNode},
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
		{name: "process stopped briefly", needsSilence: true, etcdWell: true, do: stopBriefly},
		{name: "process stopped for up to 30 s", needsSilence: true, silences: true, members: 1, do: stopLong},
		cutPair("two nodes cut off from each other", true),
		cutPair("one node cut off from another, one way", false),
		{name: watchersLost, needsSilence: true, etcdWell: true,
			partners: func(w *world, n *chaosNode, _ *rand.Rand) []*chaosNode { return w.watchersOf(n) }, do: loseWatchers},
		lostHost("all packets of a node dropped", fault.Both),
		lostHost("all packets to a node dropped", fault.ToTarget),
		lostHost("all packets from a node dropped", fault.FromTarget),
		{name: "node and its etcd member lost at once", needsSilence: true, silences: true, atEtcd: true, withNode: true,
			members: 2, do: loseHostWithMember},
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
		if one := cfg.EtcdMembers == 1; one && k.others || !one && k.alone || cfg.SilenceTimeout == 0 && k.needsSilence {
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
