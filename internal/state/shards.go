package state

import (
	"cmp"
	"slices"

	"github.com/goverse/goverse/internal/sharding"
)

// ShardMap is the present shard map.
type ShardMap struct {
	*sharding.Map // nil if it cannot be read
	// Err is the reason why it cannot be read.
	Err         error
	ModRevision int64
}

// ReleaseReport is a member's present report. An unreadable one has a zero Report.
type ReleaseReport struct {
	Address string
	sharding.Report
	ModRevision int64
	Lease       int64
}

// ReportOf returns the report of the member at address, or nil if there is none.
func (s *Snapshot) ReportOf(address string) *ReleaseReport {
	if i, ok := s.releasedIndex(address); ok {
		return s.Released[i]
	}
	return nil
}

// MoveDone reports whether the new owner of a moved shard may serve it, because the former owner has released
// it or is no longer registered. It is valid only for a move of this snapshot's own map, which was written
// while the former owner was registered.
func (s *Snapshot) MoveDone(move sharding.Move) bool {
	m := s.Member(move.From.Address)
	var report sharding.Report
	if r := s.ReportOf(move.From.Address); r != nil {
		report = r.Report
	}
	return move.Done(m != nil && m.Incarnation == move.From.Incarnation, report)
}

// Map returns the shard map, or nil if s is nil, or the map does not exist or cannot be read.
func (s *Snapshot) Map() *sharding.Map {
	if s == nil || s.ShardMap == nil {
		return nil
	}
	return s.ShardMap.Map
}

func (s *Snapshot) putShardMap(kv KV) {
	m, err := sharding.DecodeMap(kv.Value)
	if err == nil {
		m = m.NotBefore(kv.CreateRevision)
	}
	s.ShardMap = &ShardMap{Map: m, Err: err, ModRevision: kv.ModRevision}
}

func (s *Snapshot) putReleased(p ParsedKey, kv KV) error {
	s.removeReleased(p.Address)
	// An unreadable report says nothing, but it exists: its author has to write over it.
	report, err := sharding.DecodeReport(kv.Value)
	i, _ := s.releasedIndex(p.Address)
	s.Released = insertAt(s.Released, i, &ReleaseReport{Address: p.Address, Report: report, ModRevision: kv.ModRevision,
		Lease: kv.Lease})
	return err
}

func (s *Snapshot) removeReleased(address string) {
	if i, ok := s.releasedIndex(address); ok {
		s.Released = removeAt(s.Released, i)
	}
}

func (s *Snapshot) releasedIndex(address string) (int, bool) {
	return slices.BinarySearchFunc(s.Released, address, func(r *ReleaseReport, a string) int {
		return cmp.Compare(r.Address, a)
	})
}
