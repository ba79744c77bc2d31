package shardview

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// ErrNoMap: the shards were not dealt out yet. A map that cannot be read is
// sharding.ErrBadMap.
var ErrNoMap = errors.New("there is no shard map yet: the leader writes one as soon as enough nodes with sharding are there")

// View is the shard map and how far its moves have come. Lists are never nil. Shards are
// written as ranges, "0-99,105".
type View struct {
	Count      int     `json:"count"`      // of all shards
	Generation int64   `json:"generation"` // of the map
	Revision   int64   `json:"revision"`   // at which all of this was so
	Balance    Balance `json:"balance"`
	Unowned    string  `json:"unowned,omitempty"` // shards that are nobody's
	Owners     []Owner `json:"owners"`            // by address
	OpenMoves  int     `json:"open_moves"`        // shards that somebody waits for
	Moves      []Move  `json:"moves"`             // the oldest first
}

// Balance is the least and the most that one owner has, of those that have any.
type Balance struct {
	Least int `json:"least"`
	Most  int `json:"most"`
}

// State is what has become of an owner.
type State string

// The states of owners.
const (
	Alive    State = "alive"
	Draining State = "draining" // on its way out, or emptied by an operator
	Gone     State = "gone"     // not registered any more: the next plan gives its shards away
)

// Owner is one that owns shards, or a member that takes part and has none (yet).
type Owner struct {
	Address     string `json:"address"`
	Incarnation int64  `json:"incarnation"`
	State       State  `json:"state"`
	Weight      int    `json:"weight"` // 0 if it is gone
	Count       int    `json:"count"`
	// MayServe is how many of its shards nobody else has to let go of any more.
	MayServe int    `json:"may_serve"`
	Shards   string `json:"shards"`
}

// Move is the same handoff of several shards. One that is done stays in the map until the
// next plan.
type Move struct {
	From            string `json:"from"`
	FromIncarnation int64  `json:"from_incarnation"`
	To              string `json:"to"`
	ToIncarnation   int64  `json:"to_incarnation"`
	Since           int64  `json:"since"` // generation from which on From has to let go
	Done            bool   `json:"done"`
	WaitsFor        string `json:"waits_for,omitempty"` // address, while it is not done
	Count           int    `json:"count"`
	Shards          string `json:"shards"`
}

// Map is the map of a snapshot, and an error that says in one line what to do if there
// is none (ErrNoMap) or it cannot be read (sharding.ErrBadMap).
func Map(s *state.Snapshot) (*sharding.Map, error) {
	switch {
	case s == nil || s.ShardMap == nil:
		return nil, ErrNoMap
	case s.ShardMap.Err != nil:
		return nil, fmt.Errorf("%w; if no newer version of Goverse wrote it, delete %s", s.ShardMap.Err, s.Keys.ShardMap())
	}
	return s.ShardMap.Map, nil
}

// New makes the tables of a snapshot. Errors are those of [Map].
func New(s *state.Snapshot) (View, error) {
	m, err := Map(s)
	if err != nil {
		return View{}, err
	}
	v := View{Count: m.Shards(), Generation: m.Generation(), Revision: s.Revision, Owners: []Owner{}, Moves: []Move{}}
	moves := map[Move][]int{}
	waiting := map[sharding.Owner]int{}
	for move := range m.Moves() {
		to, _ := m.Owner(move.Shard)
		group := Move{From: move.From.Address, FromIncarnation: move.From.Incarnation, To: to.Address, ToIncarnation: to.Incarnation,
			Since: move.Since, Done: s.MoveDone(move)}
		if !group.Done {
			group.WaitsFor = move.From.Address
			waiting[to]++
			v.OpenMoves++
		}
		moves[group] = append(moves[group], move.Shard)
	}
	for group, shards := range moves {
		group.Count, group.Shards = len(shards), sharding.FormatRanges(shards)
		v.Moves = append(v.Moves, group)
	}
	slices.SortFunc(v.Moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.FromIncarnation, b.FromIncarnation),
			cmp.Compare(a.ToIncarnation, b.ToIncarnation), cmp.Compare(a.WaitsFor, b.WaitsFor))
	})
	v.own(s, m, waiting)
	return v, nil
}

// own fills in who owns what.
func (v *View) own(s *state.Snapshot, m *sharding.Map, waiting map[sharding.Owner]int) {
	owned := map[sharding.Owner][]int{}
	for _, member := range s.Members {
		if member.Shards == m.Shards() {
			owned[sharding.Owner{Address: member.Address, Incarnation: member.Incarnation}] = nil
		}
	}
	var unowned []int
	for shard := range m.Shards() {
		if o, ok := m.Owner(shard); ok {
			owned[o] = append(owned[o], shard)
		} else {
			unowned = append(unowned, shard)
		}
	}
	v.Unowned = sharding.FormatRanges(unowned)
	for _, o := range slices.SortedFunc(maps.Keys(owned), sharding.Owner.Compare) {
		shards := owned[o]
		row := Owner{Address: o.Address, Incarnation: o.Incarnation, State: Gone, Count: len(shards), Shards: sharding.FormatRanges(shards)}
		if member := s.Member(o.Address); member != nil && member.Incarnation == o.Incarnation {
			row.State, row.Weight, row.MayServe = Alive, max(member.Weight, 1), len(shards)-waiting[o]
			if member.Draining {
				row.State = Draining
			}
		}
		v.Owners = append(v.Owners, row)
		if row.Count > 0 {
			if v.Balance.Least == 0 || row.Count < v.Balance.Least {
				v.Balance.Least = row.Count
			}
			v.Balance.Most = max(v.Balance.Most, row.Count)
		}
	}
}

// MayServe is how many shards have an owner that may serve them.
func (v View) MayServe() int {
	n := 0
	for _, o := range v.Owners {
		n += o.MayServe
	}
	return n
}

// Owner is the row of a member; an empty one if it has none.
func (v View) Owner(address string, incarnation int64) Owner {
	for _, o := range v.Owners {
		if o.Address == address && o.Incarnation == incarnation {
			return o
		}
	}
	return Owner{}
}
