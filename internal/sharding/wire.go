package sharding

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/state/format"
)

// ErrBadMap is wrapped by the errors of [DecodeMap]: the value is not a shard map, or is an inconsistent one.
var ErrBadMap = errors.New("unreadable shard map")

// wireVersion is the format of the maps that this release writes.
const wireVersion = format.First

type wireMap struct {
	// Version is the map's format; its name is older than formats.
	Version    int         `json:"version"`
	Shards     int         `json:"shards"`
	Generation int64       `json:"generation"`
	Grants     []wireGrant `json:"grants"`
	Moves      []wireMove  `json:"moves"`
}

type wireGrant struct {
	Address     string `json:"address"`
	Incarnation int64  `json:"incarnation"`
	Epoch       int64  `json:"epoch"`
	Shards      string `json:"shards"`
}

type wireMove struct {
	Address     string `json:"address"`
	Incarnation int64  `json:"incarnation"`
	Since       int64  `json:"since"`
	Shards      string `json:"shards"`
}

// Encode returns the map as it is stored: one JSON value on one line. Shards with the same owner and epoch are
// grouped, as are shards that wait for the same member since the same generation. Equal maps have equal bytes.
func (m *Map) Encode() []byte {
	grants, moves := shardGroups{}, shardGroups{}
	for shard, c := range m.cells {
		if c.owner != noIndex {
			grants.add(m.owners[c.owner], c.epoch, shard)
		}
	}
	for _, move := range m.moves {
		moves.add(move.From, move.Since, move.Shard)
	}
	w := wireMap{Version: wireVersion, Shards: len(m.cells), Generation: m.generation, Grants: []wireGrant{},
		Moves: []wireMove{}}
	for _, g := range grants.sorted() {
		w.Grants = append(w.Grants, wireGrant{g.Address, g.Incarnation, g.generation, FormatRanges(grants[g])})
	}
	for _, g := range moves.sorted() {
		w.Moves = append(w.Moves, wireMove{g.Address, g.Incarnation, g.generation, FormatRanges(moves[g])})
	}
	value, err := format.EncodeVersioned(w, m.rest)
	if err != nil {
		panic(fmt.Sprintf("sharding: a map of strings and numbers did not encode: %v", err))
	}
	return value
}

// shardGroups holds shards, in order, by owner and generation.
type shardGroups map[shardGroup][]int

type shardGroup struct {
	Owner
	generation int64
}

func (g shardGroups) add(o Owner, generation int64, shard int) {
	key := shardGroup{o, generation}
	g[key] = append(g[key], shard)
}

func (g shardGroups) sorted() []shardGroup {
	return slices.SortedFunc(maps.Keys(g), func(a, b shardGroup) int {
		return cmp.Or(a.Compare(b.Owner), cmp.Compare(a.generation, b.generation))
	})
}

// DecodeMap parses the result of [Map.Encode] and validates all of it. Errors match [ErrBadMap], and also
// format.ErrFormat if this release does not read the map's format. The map, and those that [Plan] makes of it, keep
// the fields of the whole value that this release does not know.
func DecodeMap(value []byte) (*Map, error) {
	var w wireMap
	err := json.Unmarshal(value, &w)
	switch { // fields that a newer version changed may not parse, but its version does
	case w.Version > format.Newest:
		return nil, fmt.Errorf("%w: %w", ErrBadMap, format.Own().Check("the shard map", w.Version, ""))
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBadMap, err)
	}
	m, err := w.buildMap()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadMap, err)
	}
	m.rest = format.RestOf(value, &w)
	return m, nil
}

func (w wireMap) buildMap() (*Map, error) {
	switch {
	case w.Version != wireVersion:
		return nil, fmt.Errorf("there is no version %d", w.Version)
	case w.Shards < 1 || w.Shards > shard.MaxCount:
		return nil, fmt.Errorf("%d shards are not between 1 and %d", w.Shards, shard.MaxCount)
	case w.Generation < 1:
		return nil, fmt.Errorf("generation %d is not positive", w.Generation)
	}
	cells := make([]shardCell, w.Shards)
	for i := range cells {
		cells[i] = shardCell{owner: noIndex, move: noIndex}
	}
	owners := make([]Owner, len(w.Grants))
	for i, g := range w.Grants {
		owners[i] = Owner{g.Address, g.Incarnation}
		if err := w.checkGroup(owners[i], g.Epoch, g.Shards, func(shard int) error {
			if cells[shard].owner != noIndex {
				return fmt.Errorf("shard %d is granted twice", shard)
			}
			cells[shard] = shardCell{epoch: g.Epoch, owner: int32(i), move: noIndex}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("grant %d: %w", i, err)
		}
	}
	for i, g := range w.Moves {
		if err := w.checkGroup(Owner{g.Address, g.Incarnation}, g.Since, g.Shards, func(shard int) error {
			if cells[shard].owner == noIndex || cells[shard].move != noIndex {
				return fmt.Errorf("shard %d has no owner or another move", shard)
			}
			cells[shard].move = int32(i)
			return nil
		}); err != nil {
			return nil, fmt.Errorf("move %d: %w", i, err)
		}
	}
	var moves []Move
	for shard, c := range cells {
		if c.move != noIndex {
			g := w.Moves[c.move]
			moves = append(moves, Move{shard, Owner{g.Address, g.Incarnation}, g.Since})
		}
	}
	return newMap(w.Generation, owners, cells, moves), nil
}

// checkGroup validates the parts that grants and moves have in common.
func (w wireMap) checkGroup(o Owner, generation int64, shards string, take func(shard int) error) error {
	switch {
	case !o.isEncodable():
		return fmt.Errorf("%.100q at incarnation %d can own nothing", o.Address, o.Incarnation)
	case generation < 1 || generation > w.Generation:
		return fmt.Errorf("generation %d is not between 1 and the map's %d", generation, w.Generation)
	case shards == "":
		return errors.New("it has no shards")
	}
	return parseRanges(shards, w.Shards, take)
}
