package state

import (
	"cmp"
	"slices"
	"time"
)

// SilenceRecord is the value of a nodes-silent key. It says that the member with that incarnation did not
// answer a watcher.
type SilenceRecord struct {
	Incarnation int64 `json:"incarnation"`
	// SilentMS is the time for which the member had not answered when the record was written, in milliseconds.
	// So no clocks of different hosts are compared. The record is rewritten from time to time while the silence
	// lasts.
	SilentMS int64 `json:"silent_ms"`
}

// Encode returns the record as it is stored.
func (r SilenceRecord) Encode() string { return encodeJSON(r) }

// DecodeSilence decodes the value of a nodes-silent key.
func DecodeSilence(value []byte) (SilenceRecord, error) { return decodeJSON[SilenceRecord](value) }

// Silence is one watcher's mark about a member that does not answer it.
type Silence struct {
	Address string
	Watcher string // its instance id
	SilenceRecord
	CreateRevision, ModRevision int64
}

// SilentFor returns the time for which the member had not answered when the mark was written. Values that no
// watcher writes are limited to the range from 0 to a day.
func (x *Silence) SilentFor() time.Duration {
	return time.Duration(min(max(x.SilentMS, 0), (24*time.Hour).Milliseconds())) * time.Millisecond
}

// SilencesOf returns the marks about m, sorted by watcher.
func (s *Snapshot) SilencesOf(m *Member) []*Silence {
	i, _ := s.silenceIndex(m.Address, "")
	var out []*Silence
	for ; i < len(s.Silences) && s.Silences[i].Address == m.Address; i++ {
		if x := s.Silences[i]; x.Incarnation == m.Incarnation {
			out = append(out, x)
		}
	}
	return out
}

// CountSilentMembers returns the number of members with at least one mark about their present incarnation.
func (s *Snapshot) CountSilentMembers() int {
	n, last := 0, ""
	for _, x := range s.Silences {
		if m := s.Member(x.Address); x.Address != last && m != nil && m.Incarnation == x.Incarnation {
			n, last = n+1, x.Address
		}
	}
	return n
}

func (s *Snapshot) putSilence(p ParsedKey, kv KV) error {
	s.removeSilence(p)
	record, err := DecodeSilence(kv.Value)
	if err != nil {
		return err
	}
	i, _ := s.silenceIndex(p.Address, p.Watcher)
	s.Silences = insertAt(s.Silences, i, &Silence{Address: p.Address, Watcher: p.Watcher, SilenceRecord: record,
		CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision})
	return nil
}

func (s *Snapshot) removeSilence(p ParsedKey) {
	if i, ok := s.silenceIndex(p.Address, p.Watcher); ok {
		s.Silences = removeAt(s.Silences, i)
	}
}

func (s *Snapshot) silenceIndex(address, watcher string) (int, bool) {
	return slices.BinarySearchFunc(s.Silences, [2]string{address, watcher}, func(x *Silence, k [2]string) int {
		return cmp.Or(cmp.Compare(x.Address, k[0]), cmp.Compare(x.Watcher, k[1]))
	})
}
