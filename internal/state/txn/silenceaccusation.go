package txn

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

// evidenceOfSilence is the evidence in the mark that a member was removed for its silence.
const evidenceOfSilence = "it answered neither its watcher nor the accusation"

// AccuseOfSilence writes, on the accuser's lease, the accusation that m has been silent for that time, while both are
// registered with their incarnations. It then counts the accusations of silence against all members, this one
// included; a member that two watchers accuse counts twice. And it reads the accusation: a copy of the request may have
// created it before. Otherwise it reads the node keys of m and of the accuser.
func AccuseOfSilence(keys state.Keys, m, accuser *state.Member, lease int64, silent time.Duration) Txn {
	node, own := keys.Node(m.Address), keys.Node(accuser.Address)
	accusation := keys.SilenceAccusation(m.Address, accuser.InstanceID)
	record := state.SilenceAccusationRecord{Incarnation: m.Incarnation, AccuserIncarnation: accuser.Incarnation,
		SilentMS: silent.Milliseconds()}
	return Txn{If: []Guard{created(node, m.Incarnation), created(own, accuser.Incarnation)},
		Then: []Op{{Kind: Put, Key: accusation, Value: record.Encode(), Lease: lease},
			onPrefix(Count, keys.SilenceAccusations()), {Kind: Get, Key: accusation}},
		Else: []Op{{Kind: Get, Key: node}, {Kind: Get, Key: own}}}
}

// WithdrawSilenceAccusation deletes the accuser's accusation of silence against m, and reads m's node key, and the mark
// that a removal may have written. It needs no guard: a delayed one may delete a later accusation of the same accuser,
// and then that one removes nothing.
func WithdrawSilenceAccusation(keys state.Keys, m, accuser *state.Member) Txn {
	return Txn{Then: []Op{{Kind: Delete, Key: keys.SilenceAccusation(m.Address, accuser.InstanceID)},
		{Kind: Get, Key: keys.Node(m.Address)}, {Kind: Get, Key: keys.Accusation(m.Address, accuser.InstanceID)}}}
}

// RemoveSilent deletes the keys of m, and all accusations of silence against it, if the accusation of silence that the
// accuser created at revision accused has stood since, and m and the accuser are still those incarnations. In place of
// the accusation, which lies outside the range that all nodes mirror, it writes a mark of the removal there: an
// accusation of that incarnation with [state.AccusationRecord].Removed. The mark is on the lease in the accuser's
// record. It is void from the start, so the accuser deletes it as it does its other void accusations.
//
// Otherwise it reads m's node key, the accusation, and the mark that a copy of the request may have written. With
// queued it also deletes m's candidate key, as RemoveMember does.
func RemoveSilent(keys state.Keys, m *state.Member, queued bool, accuser *state.Member, accused int64) Txn {
	node, accusation := keys.Node(m.Address), keys.SilenceAccusation(m.Address, accuser.InstanceID)
	key, mark := keys.Accusation(m.Address, accuser.InstanceID),
		state.AccusationRecord{Incarnation: m.Incarnation, Evidence: evidenceOfSilence, Removed: true}
	c := Txn{If: []Guard{created(node, m.Incarnation), created(keys.Node(accuser.Address), accuser.Incarnation),
		created(accusation, accused)},
		Then: []Op{{Kind: Delete, Key: node}, onPrefix(Delete, keys.SilenceAccusationsOf(m.Address)),
			{Kind: Put, Key: key, Value: mark.Encode(), Lease: accuser.Lease}},
		Else: []Op{{Kind: Get, Key: node}, {Kind: Get, Key: accusation}, {Kind: Get, Key: key}}}
	if queued {
		c.Then = append(c.Then, Op{Kind: Delete, Key: keys.Candidate(m.KeyLease)})
	}
	return c
}
