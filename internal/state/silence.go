package state

import (
	"cmp"
	"slices"
	"time"
)

// SilenceRecord is the value of a nodes-silent key: the member with that incarnation did not answer a watcher.
type SilenceRecord struct {
	Incarnation int64 `json:"incarnation"`
	// SilentMS is for how long it had not answered when this was written, in milliseconds: no clock is compared with
	// another one. It is written anew from time to time while the silence lasts.
	SilentMS int64 `json:"silent_ms"`
}

// Encode is the record as it is stored.
func (r SilenceRecord) Encode() string { return encode(r) }

// DecodeSilence reads a nodes-silent key's value.
func DecodeSilence(value []byte) (SilenceRecord, error) { return decode[SilenceRecord](value) }

// Silence is what one watcher says of a member that does not answer it.
type Silence struct {
	Address string
	Watcher string // its instance id
	SilenceRecord
	CreateRevision, ModRevision int64
}

// Silent is for how long the member had not answered when that was written. What no watcher writes, less than nothing
// or more than a day, is nothing or a day.
func (x *Silence) Silent() time.Duration {
	return time.Duration(min(max(x.SilentMS, 0), (24*time.Hour).Milliseconds())) * time.Millisecond
}

// SilencesOf are those of m, by watcher.
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

// SilentMembers is how many members somebody says that they do not answer.
func (s *Snapshot) SilentMembers() int {
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
	s.Silences = with(s.Silences, i, &Silence{Address: p.Address, Watcher: p.Watcher, SilenceRecord: record,
		CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision})
	return nil
}

func (s *Snapshot) removeSilence(p ParsedKey) {
	if i, ok := s.silenceIndex(p.Address, p.Watcher); ok {
		s.Silences = without(s.Silences, i)
	}
}

func (s *Snapshot) silenceIndex(address, watcher string) (int, bool) {
	return slices.BinarySearchFunc(s.Silences, [2]string{address, watcher}, func(x *Silence, k [2]string) int {
		return cmp.Or(cmp.Compare(x.Address, k[0]), cmp.Compare(x.Watcher, k[1]))
	})
}
