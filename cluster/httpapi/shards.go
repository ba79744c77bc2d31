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
	// Waiting is the number of this node's shards that the former owner has not released.
	Waiting int `json:"waiting"`
	shard.Table
}

// Held is the number of shards that a node holds, by progress.
type Held struct {
	Acquiring int64 `json:"acquiring"` // OnAcquire runs
	Serving   int64 `json:"serving"`   // 0 while the session is not valid
	Releasing int64 `json:"releasing"` // waits for running calls
}

func (a *api) serveShards(w http.ResponseWriter, _ *http.Request) {
	st := a.source.Status()
	switch {
	case !st.State.Running():
		writeUnavailable(w, notRunningError(st))
		return
	case st.Shards.Shards == 0:
		writeProblem(w, shardingOffKind, "sharding is off on this node: ask another one")
		return
	}
	table, err := a.source.ShardTable()
	if err != nil { // also if it cannot be read
		writeProblem(w, noShardMapKind, logtext.OneLine(err))
		return
	}
	writeJSON(w, http.StatusOK, Shards{NodeID: st.NodeID, Waiting: st.Shards.Waiting, Table: table,
		Held: Held{Acquiring: st.Shards.Acquiring, Serving: st.Shards.Serving, Releasing: st.Shards.Releasing}})
}
