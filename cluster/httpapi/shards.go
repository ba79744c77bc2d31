package httpapi

import (
	"net/http"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// Shards is the body of /cluster/shards: the shard map, and this node's part in it.
type Shards struct {
	NodeID string `json:"node_id"` // advertise address
	Held   Held   `json:"held"`    // by this node
	// Waiting is how many shards are this node's, and still somebody else's to release.
	Waiting int `json:"waiting"`
	shard.Table
}

// Held is how many shards a node holds, by how far it has come with them.
type Held struct {
	Acquiring int64 `json:"acquiring"` // OnAcquire runs
	Serving   int64 `json:"serving"`   // 0 while the session is not valid
	Releasing int64 `json:"releasing"` // what runs in them is waited for
}

func (a *api) shards(w http.ResponseWriter, _ *http.Request) {
	st := a.source.Status()
	switch {
	case !st.State.Running():
		unavailable(w, notRunning(st))
		return
	case st.Shards.Shards == 0:
		writeProblem(w, shardingOff, "sharding is off on this node: ask another one")
		return
	}
	table, err := a.source.ShardTable()
	if err != nil { // also one that cannot be read
		writeProblem(w, noShardMap, logtext.OneLine(err))
		return
	}
	writeJSON(w, http.StatusOK, Shards{NodeID: st.NodeID, Waiting: st.Shards.Waiting, Table: table,
		Held: Held{Acquiring: st.Shards.Acquiring, Serving: st.Shards.Serving, Releasing: st.Shards.Releasing}})
}
