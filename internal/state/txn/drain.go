package txn

import "github.com/goverse/goverse/internal/state"

// RequestDrain writes, on the requester's lease, the request that m release its shards, or with undo that it
// may have shards again, while that incarnation is registered.
func RequestDrain(keys state.Keys, m *state.Member, lease int64, undo bool) Txn {
	request := state.DrainRecord{Incarnation: m.Incarnation, Undo: undo}
	return Txn{If: []Guard{created(keys.Node(m.Address), m.Incarnation)},
		Then: []Op{{Kind: Put, Key: keys.Drain(m.Address), Value: request.Encode(), Lease: lease}}}
}
