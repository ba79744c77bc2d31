package txn

import (
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// WriteMap writes the shard map over the one that was written at over (0: none is there),
// while the planner's fence holds.
func WriteMap(keys state.Keys, fence []Guard, m *sharding.Map, over int64) Txn {
	key := keys.ShardMap()
	return Txn{If: append([]Guard{unmodified(key, over)}, fence...),
		Then: []Op{{Kind: Put, Key: key, Value: string(m.Encode())}}}
}

// Release says what the member at address has released, over its report that was written
// at over (0: there is none), while it is that incarnation that is registered.
func Release(keys state.Keys, address string, lease int64, r sharding.Report, over int64) Txn {
	key := keys.Released(address)
	return Txn{If: []Guard{created(keys.Node(address), r.Incarnation), unmodified(key, over)},
		Then: []Op{{Kind: Put, Key: key, Value: string(r.Encode()), Lease: lease}}}
}
