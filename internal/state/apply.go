package state

import (
	"cmp"
	"slices"
	"strings"
)

// KV is one key of the range as stored in etcd.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision int64
	ModRevision    int64
	Lease          int64
}

// Event is one change of the range. A deletion has only Key and ModRevision.
type Event struct {
	KV
	Deleted bool
}

// BuildSnapshot returns the snapshot of a whole range read at revision.
func BuildSnapshot(keys Keys, clusterID uint64, revision int64, kvs []KV) *Snapshot {
	s := &Snapshot{Keys: keys, ClusterID: clusterID, Revision: revision, Total: len(kvs)}
	for _, kv := range kvs {
		s.noteForeign(kv.Key, keys.explainForeign(kv, s.applyPut(keys.Parse(kv.Key), kv)))
	}
	return s
}

// Apply returns the snapshot that follows s after the events, which must be in revision order. It is exact up
// to revision. s does not change. Events that s already contains, by their revision, are skipped, so applying a
// batch twice has the same effect as applying it once.
func (s *Snapshot) Apply(revision int64, events []Event) *Snapshot {
	next := *s
	next.Stale = false
	next.Revision = max(s.Revision, revision)
	for _, ev := range events {
		if ev.ModRevision <= s.Revision {
			continue
		}
		if p := s.Keys.Parse(ev.Key); ev.Deleted {
			next.Total--
			next.applyDelete(p, ev.Key)
			next.noteForeign(ev.Key, nil)
		} else {
			if ev.CreateRevision == ev.ModRevision {
				next.Total++
			}
			next.noteForeign(ev.Key, s.Keys.explainForeign(ev.KV, next.applyPut(p, ev.KV)))
		}
	}
	return &next
}

// AsStale returns s marked as possibly behind.
func (s *Snapshot) AsStale() *Snapshot {
	next := *s
	next.Stale = true
	return &next
}

// applyPut applies a put of a key. The error is the reason for which the key is skipped or only partly understood.
func (s *Snapshot) applyPut(p ParsedKey, kv KV) error {
	switch p.Kind {
	case KindCandidate:
		c := &Candidate{Key: kv.Key, KeyLease: p.Lease, Lease: kv.Lease, Address: string(kv.Value),
			CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision}
		// A rewritten key keeps its CreateRevision. A recreated key was deleted before, by an event of its own.
		i, again := slices.BinarySearchFunc(s.Queue, c, compareCandidates)
		if again {
			s.Queue = removeAt(s.Queue, i)
		}
		s.Queue = insertAt(s.Queue, i, c)
	case KindNode:
		s.applyDelete(p, kv.Key)
		// A member with an unreadable record is still a member: it holds its address, but owns no queue entry.
		record, err := DecodeRecord(kv.Value)
		i, _ := s.memberIndex(p.Address)
		s.Members = insertAt(s.Members, i, &Member{Address: p.Address, Incarnation: kv.CreateRevision,
			ModRevision: kv.ModRevision, KeyLease: kv.Lease, Scatter: ScatterOf(p.Address), Record: record})
		return err
	case KindActing:
		s.Acting = &Acting{Address: string(kv.Value), Lease: kv.Lease, CreateRevision: kv.CreateRevision}
	case KindRequest:
		s.Request = nil
		record, err := DecodeRequest(kv.Value)
		if err != nil {
			return err
		}
		s.Request = &Request{RequestRecord: record, ModRevision: kv.ModRevision}
	case KindAccusation:
		s.applyDelete(p, kv.Key)
		record, err := DecodeAccusation(kv.Value)
		if err != nil {
			return err
		}
		i, _ := s.accusationIndex(p.Address, p.Accuser)
		s.Accusations = insertAt(s.Accusations, i, &Accusation{Address: p.Address, Accuser: p.Accuser,
			AccusationRecord: record, ModRevision: kv.ModRevision, Lease: kv.Lease})
	case KindSilence:
		return s.putSilence(p, kv)
	case KindDrain:
		return s.putDrain(p, kv)
	case KindShardMap:
		s.putShardMap(kv) // it stores the error
	case KindReleased:
		return s.putReleased(p, kv)
	default:
		if !strings.HasPrefix(kv.Key, s.Keys.DoctorKeys()) {
			return errForeignKey
		}
	}
	return nil
}

func (s *Snapshot) applyDelete(p ParsedKey, key string) {
	switch p.Kind {
	case KindCandidate:
		if i := s.queueIndex(p, key); i >= 0 {
			s.Queue = removeAt(s.Queue, i)
		}
	case KindNode:
		if i, ok := s.memberIndex(p.Address); ok {
			s.Members = removeAt(s.Members, i)
		}
	case KindActing:
		s.Acting = nil
	case KindRequest:
		s.Request = nil
	case KindAccusation:
		if i, ok := s.accusationIndex(p.Address, p.Accuser); ok {
			s.Accusations = removeAt(s.Accusations, i)
		}
	case KindSilence:
		s.removeSilence(p)
	case KindDrain:
		s.removeDrain(p.Address)
	case KindShardMap:
		s.ShardMap = nil
	case KindReleased:
		s.removeReleased(p.Address)
	}
}

func compareCandidates(a, b *Candidate) int {
	return cmp.Or(cmp.Compare(a.CreateRevision, b.CreateRevision), cmp.Compare(a.Key, b.Key))
}

// queueIndex returns the place of key, parsed as p, in the queue, or -1. It compares the numbers first, because
// keys differ only in their last bytes.
func (s *Snapshot) queueIndex(p ParsedKey, key string) int {
	return slices.IndexFunc(s.Queue, func(c *Candidate) bool { return c.KeyLease == p.Lease && c.Key == key })
}

func (s *Snapshot) memberIndex(address string) (int, bool) {
	return slices.BinarySearchFunc(s.Members, address,
		func(m *Member, a string) int { return cmp.Compare(m.Address, a) })
}

func (s *Snapshot) accusationIndex(address, accuser string) (int, bool) {
	return slices.BinarySearchFunc(s.Accusations, [2]string{address, accuser},
		func(x *Accusation, k [2]string) int {
			return cmp.Or(cmp.Compare(x.Address, k[0]), cmp.Compare(x.Accuser, k[1]))
		})
}

// insertAt and removeAt return a new slice; readers of the old one are not affected. Removing the first element, as
// every handover does, shares the rest.
func insertAt[T any](s []T, i int, v T) []T {
	out := make([]T, 0, len(s)+1)
	return append(append(append(out, s[:i]...), v), s[i:]...)
}

func removeAt[T any](s []T, i int) []T {
	if i == 0 {
		return s[1:]
	}
	return append(append(make([]T, 0, len(s)-1), s[:i]...), s[i+1:]...)
}
