package shard

// Table is the shard map and how far its moves have come, for people and programs. Lists are
// never nil. Shards are written as ranges, "0-99,105".
type Table struct {
	Count      int        `json:"count"`      // of all shards
	Generation int64      `json:"generation"` // of the map
	Revision   int64      `json:"revision"`   // at which all of this was so
	Balance    Balance    `json:"balance"`
	Unowned    string     `json:"unowned,omitempty"` // shards without an owner
	Owners     []OwnerRow `json:"owners"`            // by address
	OpenMoves  int        `json:"open_moves"`        // shards that their new owner waits for
	Moves      []MoveRow  `json:"moves"`             // the oldest first
	Epochs     []EpochRow `json:"epochs"`            // of shards that have an owner, the oldest first
}

// Balance is the least and the most that one owner has, of those that have any.
type Balance struct {
	Least int `json:"least"`
	Most  int `json:"most"`
}

// OwnerState is what has become of an owner.
type OwnerState string

// The states of owners.
const (
	Alive    OwnerState = "alive"
	Draining OwnerState = "draining" // it stops, or an operator drains it
	Gone     OwnerState = "gone"     // not registered any more: the next plan assigns its shards anew
)

// OwnerRow is an owner of shards, or a member that takes part and has none (yet).
type OwnerRow struct {
	Address     string     `json:"address"`
	Incarnation int64      `json:"incarnation"`
	State       OwnerState `json:"state"`
	Weight      int        `json:"weight"` // 0 if it is gone
	Count       int        `json:"count"`
	// MayServe is how many of its shards no other node has to release any more.
	MayServe int    `json:"may_serve"`
	Shards   string `json:"shards"`
}

// MoveRow is the same handoff of several shards. One that is done stays in the map until the
// next plan.
type MoveRow struct {
	From            string `json:"from"`
	FromIncarnation int64  `json:"from_incarnation"`
	To              string `json:"to"`
	ToIncarnation   int64  `json:"to_incarnation"`
	Since           int64  `json:"since"` // generation from which on From has to release them
	Done            bool   `json:"done"`
	WaitsFor        string `json:"waits_for,omitempty"` // address, while it is not done
	Count           int    `json:"count"`
	Shards          string `json:"shards"`
}

// EpochRow is the shards that one generation of the map assigned to their owners.
type EpochRow struct {
	Epoch  int64  `json:"epoch"`
	Shards string `json:"shards"`
}

// MayServe is how many shards have an owner that may serve them.
func (t Table) MayServe() int {
	n := 0
	for _, o := range t.Owners {
		n += o.MayServe
	}
	return n
}

// Owner is the row of a member; an empty one if it has none.
func (t Table) Owner(address string, incarnation int64) OwnerRow {
	for _, o := range t.Owners {
		if o.Address == address && o.Incarnation == incarnation {
			return o
		}
	}
	return OwnerRow{}
}
