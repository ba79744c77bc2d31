package state

import (
	"cmp"
	"slices"

	"github.com/goverse/goverse/internal/sharding"
)

// ShardMap is the shard map as it stands.
type ShardMap struct {
	*sharding.Map // nil if it cannot be read
	// Err is why it cannot be read.
	Err         error
	ModRevision int64
}

// Released is a member's report as it stands. One that cannot be read is the zero Report.
type Released struct {
	Address string
	sharding.Report
	ModRevision int64
	Lease       int64
}

// ReleasedBy is the report of the member at address, nil when there is none.
func (s *Snapshot) ReleasedBy(address string) *Released {
	if i, ok := s.releasedIndex(address); ok {
		return s.Released[i]
	}
	return nil
}

// MoveDone reports whether the shard of an open move is its new owner's to serve: whom it
// moves from has released it, or is registered no longer. That holds for a move of this
// snapshot's own map, which was written when the other was registered.
func (s *Snapshot) MoveDone(move sharding.Move) bool {
	m := s.Member(move.From.Address)
	var report sharding.Report
	if r := s.ReleasedBy(move.From.Address); r != nil {
		report = r.Report
	}
	return move.Done(m != nil && m.Incarnation == move.From.Incarnation, report)
}

// Map is the shard map, nil if there is none, or none that can be read, or no snapshot.
func (s *Snapshot) Map() *sharding.Map {
	if s == nil || s.ShardMap == nil {
		return nil
	}
	return s.ShardMap.Map
}

func (s *Snapshot) putShardMap(kv KV) {
	m, err := sharding.Decode(kv.Value)
	if err == nil {
		m = m.NotBefore(kv.CreateRevision)
	}
	s.ShardMap = &ShardMap{Map: m, Err: err, ModRevision: kv.ModRevision}
}

func (s *Snapshot) putReleased(p ParsedKey, kv KV) error {
	s.removeReleased(p.Address)
	// One that cannot be read says nothing, and is there all the same: its author has to
	// write over it.
	report, err := sharding.DecodeReport(kv.Value)
	i, _ := s.releasedIndex(p.Address)
	s.Released = with(s.Released, i, &Released{Address: p.Address, Report: report, ModRevision: kv.ModRevision,
		Lease: kv.Lease})
	return err
}

func (s *Snapshot) removeReleased(address string) {
	if i, ok := s.releasedIndex(address); ok {
		s.Released = without(s.Released, i)
	}
}

func (s *Snapshot) releasedIndex(address string) (int, bool) {
	return slices.BinarySearchFunc(s.Released, address, func(r *Released, a string) int {
		return cmp.Compare(r.Address, a)
	})
}
