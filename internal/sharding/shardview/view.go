package shardview

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
)

// ErrNoMap is returned if the shards are not assigned yet. A map that cannot be read is sharding.ErrBadMap.
var ErrNoMap = errors.New("there is no shard map yet: the leader writes one as soon as enough nodes with sharding " +
	"are there")

// MapOf returns the map of a snapshot. If there is none (ErrNoMap), or it cannot be read (sharding.ErrBadMap),
// the error names the remedy in one line.
func MapOf(s *state.Snapshot) (*sharding.Map, error) {
	switch {
	case s == nil || s.ShardMap == nil:
		return nil, ErrNoMap
	case errors.Is(s.ShardMap.Err, format.ErrFormat):
		return nil, s.ShardMap.Err // it has the remedy
	case s.ShardMap.Err != nil:
		return nil, fmt.Errorf("%w; if Goverse did not write it, delete %s", s.ShardMap.Err, s.Keys.ShardMap())
	}
	return s.ShardMap.Map, nil
}

// New returns the tables of a snapshot, or an error as [MapOf] does.
func New(s *state.Snapshot) (shard.Table, error) {
	m, err := MapOf(s)
	if err != nil {
		return shard.Table{}, err
	}
	v := shard.Table{Count: m.Shards(), Generation: m.Generation(), Revision: s.Revision, Owners: []shard.OwnerRow{},
		Moves: []shard.MoveRow{}, Epochs: epochRows(m)}
	moves := map[shard.MoveRow][]int{}
	waiting := map[sharding.Owner]int{}
	for move := range m.Moves() {
		to, _ := m.Owner(move.Shard)
		group := shard.MoveRow{From: move.From.Address, FromIncarnation: move.From.Incarnation, To: to.Address,
			ToIncarnation: to.Incarnation,
			Since:         move.Since, Done: s.MoveDone(move)}
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
	slices.SortFunc(v.Moves, func(a, b shard.MoveRow) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To),
			cmp.Compare(a.FromIncarnation, b.FromIncarnation),
			cmp.Compare(a.ToIncarnation, b.ToIncarnation), cmp.Compare(a.WaitsFor, b.WaitsFor))
	})
	fillOwners(&v, s, m, waiting)
	return v, nil
}

// epochRows returns the shards grouped by the generation that assigned them to their owners.
func epochRows(m *sharding.Map) []shard.EpochRow {
	by := map[int64][]int{}
	for i := range m.Shards() {
		if epoch := m.Epoch(i); epoch != 0 {
			by[epoch] = append(by[epoch], i)
		}
	}
	rows := []shard.EpochRow{}
	for _, epoch := range slices.Sorted(maps.Keys(by)) {
		rows = append(rows, shard.EpochRow{Epoch: epoch, Shards: sharding.FormatRanges(by[epoch])})
	}
	return rows
}

// fillOwners fills in the owners and their shards.
func fillOwners(v *shard.Table, s *state.Snapshot, m *sharding.Map, waiting map[sharding.Owner]int) {
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
		row := shard.OwnerRow{Address: o.Address, Incarnation: o.Incarnation, State: shard.Gone, Count: len(shards),
			Shards: sharding.FormatRanges(shards)}
		if member := s.Member(o.Address); member != nil && member.Incarnation == o.Incarnation {
			row.State, row.Weight, row.MayServe = shard.Alive, max(member.Weight, 1), len(shards)-waiting[o]
			if member.Draining {
				row.State = shard.Draining
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
