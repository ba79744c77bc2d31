package shard

// Table describes the shard map and the progress of its moves, for people and programs. Its lists are never
// nil. Shards are written as ranges, such as "0-99,105".
type Table struct {
	Count      int        `json:"count"`      // number of shards in the cluster
	Generation int64      `json:"generation"` // of the map
	Revision   int64      `json:"revision"`   // etcd revision that the table shows
	Balance    Balance    `json:"balance"`
	Unowned    string     `json:"unowned,omitempty"` // shards without an owner
	Owners     []OwnerRow `json:"owners"`            // sorted by address
	OpenMoves  int        `json:"open_moves"`        // shards that their new owner still waits for
	Moves      []MoveRow  `json:"moves"`             // oldest first
	Epochs     []EpochRow `json:"epochs"`            // of shards that have an owner, oldest first
}

// Balance gives the smallest and the largest number of shards that one owner has. Members without shards do not
// count.
type Balance struct {
	Least int `json:"least"`
	Most  int `json:"most"`
}

// OwnerState is the state of an owner of shards.
type OwnerState string

// The states of owners.
const (
	Alive    OwnerState = "alive"
	Draining OwnerState = "draining" // it is stopping, or an operator drains it
	Gone     OwnerState = "gone"     // no longer registered; the next plan assigns its shards to others
)

// OwnerRow describes an owner of shards, or a member that takes part in the shards and has none yet.
type OwnerRow struct {
	Address     string     `json:"address"`
	Incarnation int64      `json:"incarnation"`
	State       OwnerState `json:"state"`
	Weight      int        `json:"weight"` // 0 if it is gone
	Count       int        `json:"count"`
	// MayServe counts its shards that no other node has yet to release.
	MayServe int    `json:"may_serve"`
	Shards   string `json:"shards"`
}

// MoveRow describes the shards that move from one owner to another since one generation. A finished move stays
// in the map until the next plan.
type MoveRow struct {
	From            string `json:"from"`
	FromIncarnation int64  `json:"from_incarnation"`
	To              string `json:"to"`
	ToIncarnation   int64  `json:"to_incarnation"`
	Since           int64  `json:"since"` // generation since which From has to release the shards
	Done            bool   `json:"done"`
	WaitsFor        string `json:"waits_for,omitempty"` // address, until the move is done
	Count           int    `json:"count"`
	Shards          string `json:"shards"`
}

// EpochRow lists the shards that one generation of the map assigned to their owners.
type EpochRow struct {
	Epoch  int64  `json:"epoch"`
	Shards string `json:"shards"`
}

// MayServe returns the number of shards that their owner may serve.
func (t Table) MayServe() int {
	n := 0
	for _, o := range t.Owners {
		n += o.MayServe
	}
	return n
}

// Owner returns the row of a member, or an empty row if the member has none.
func (t Table) Owner(address string, incarnation int64) OwnerRow {
	for _, o := range t.Owners {
		if o.Address == address && o.Incarnation == incarnation {
			return o
		}
	}
	return OwnerRow{}
}
