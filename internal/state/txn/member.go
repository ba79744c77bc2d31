package txn

import "github.com/goverse/goverse/internal/state"

// RegisterMember creates the node key at address if none exists. Otherwise it reads the existing one.
func RegisterMember(keys state.Keys, address string, record state.Record) Txn {
	key := keys.Node(address)
	return Txn{If: []Guard{absent(key)}, Then: []Op{{Kind: Put, Key: key, Value: record.Encode(), Lease: record.Lease}},
		Else: []Op{{Kind: Get, Key: key}}}
}

// UpdateRecord replaces the record that was written at modRevision.
func UpdateRecord(keys state.Keys, address string, record state.Record, modRevision int64) Txn {
	key := keys.Node(address)
	return Txn{If: []Guard{unmodified(key, modRevision)},
		Then: []Op{{Kind: Put, Key: key, Value: record.Encode(), Lease: record.Lease}}}
}

// WriteAccusation writes an accusation against m on the accuser's lease, while that incarnation is registered.
func WriteAccusation(keys state.Keys, m *state.Member, accuser string, lease int64, evidence string) Txn {
	record := state.AccusationRecord{Incarnation: m.Incarnation, Evidence: evidence}
	return Txn{If: []Guard{created(keys.Node(m.Address), m.Incarnation)},
		Then: []Op{{Kind: Put, Key: keys.Accusation(m.Address, accuser), Value: record.Encode(), Lease: lease}}}
}

// RefuteAccusations deletes accusations of m, all at once, while that incarnation is registered. It does not matter if
// one of them was rewritten meanwhile: it is as false as before. (If the member has died since, it is accused
// again.)
func RefuteAccusations(keys state.Keys, m *state.Member, accusations []*state.Accusation) Txn {
	c := Txn{If: []Guard{created(keys.Node(m.Address), m.Incarnation)}}
	for _, a := range accusations {
		c.Then = append(c.Then, Op{Kind: Delete, Key: keys.Accusation(a.Address, a.Accuser)})
	}
	return c
}

// WithdrawAccusation deletes an accuser's own accusation, if it has not changed.
func WithdrawAccusation(keys state.Keys, a *state.Accusation) Txn {
	key := keys.Accusation(a.Address, a.Accuser)
	return Txn{If: []Guard{unmodified(key, a.ModRevision)}, Then: []Op{{Kind: Delete, Key: key}}}
}

// RemoveMember deletes the keys of m, if the accusation written at revision accused still stands and m is still that
// incarnation. Otherwise it reads the node key. With queued it also deletes m's candidate key; without a
// candidacy that is left out, because etcd may deny the queue altogether.
func RemoveMember(keys state.Keys, m *state.Member, queued bool, accuser string, accused int64) Txn {
	node, accusation := keys.Node(m.Address), keys.Accusation(m.Address, accuser)
	c := Txn{If: []Guard{created(node, m.Incarnation), unmodified(accusation, accused)},
		Then: []Op{{Kind: Delete, Key: node}, {Kind: Delete, Key: accusation}},
		Else: []Op{{Kind: Get, Key: node}}}
	if queued {
		c.Then = append(c.Then, Op{Kind: Delete, Key: keys.Candidate(m.KeyLease)})
	}
	return c
}
