package txn

import (
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// WriteMap replaces the shard map that was written at over (0 if there is none), while the planner's fence
// holds. Otherwise it reads the map that stands.
func WriteMap(keys state.Keys, fence []Guard, m *sharding.Map, over int64) Txn {
	key := keys.ShardMap()
	return Txn{If: append([]Guard{unmodified(key, over)}, fence...),
		Then: []Op{{Kind: Put, Key: key, Value: string(m.Encode())}}, Else: []Op{{Kind: Get, Key: key}}}
}

// WriteReport writes the report of the member at address, over its report that was written at over (0 if there is
// none), while that incarnation is registered.
func WriteReport(keys state.Keys, address string, lease int64, r sharding.Report, over int64) Txn {
	key := keys.Released(address)
	return Txn{If: []Guard{created(keys.Node(address), r.Incarnation), unmodified(key, over)},
		Then: []Op{{Kind: Put, Key: key, Value: string(r.Encode()), Lease: lease}}}
}
