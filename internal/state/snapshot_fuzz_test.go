package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/sharding"
)

// keyOf returns a key of the range: of each kind, or a foreign one.
func keyOf(k Keys, kind uint8, a, b string) string {
	switch kind % 10 {
	case 0:
		return k.Queue() + a
	case 1:
		return k.Acting()
	case 2:
		return k.Request()
	case 3:
		return k.Node(a)
	case 4:
		return k.Accusation(a, b)
	case 5:
		return k.Drain(a)
	case 6:
		return k.ShardMap()
	case 7:
		return k.Released(a)
	case 9:
		return k.Silence(a, b)
	}
	return k.RangeStart() + a
}

// Whatever values the keys have, reading them does not fail, and folding a change gives the same snapshot as a
// read of the whole range.
func FuzzSnapshot(f *testing.F) {
	keys := testKeys(f)
	record := Record{InstanceID: "i", Lease: 7, TTL: 10, Shards: 8, Labels: map[string]string{"a": "b"}, Draining: true}
	report := sharding.Report{Incarnation: 2, Generation: 5, Busy: []int{6}}
	f.Add(uint8(3), "a:1", "", []byte(record.Encode()), uint8(0), "7", "", []byte("a:1"), false)
	f.Add(uint8(4), "a:1", "b", []byte(AccusationRecord{Incarnation: 2, Evidence: "refused"}.Encode()), uint8(1), "", "",
		[]byte("a:1"), true)
	f.Add(uint8(2), "", "", []byte(RequestRecord{Kind: RequestTransfer, Token: 3, Target: "b:1"}.Encode()), uint8(7),
		"a:1", "", report.Encode(), false)
	f.Add(uint8(6), "", "", []byte(`{"version":1,"shards":8,"generation":5,"grants":[{"address":"a:1","incarnation":2,`+
		`"epoch":3,"shards":"0-7"}],"moves":[{"address":"b:1","incarnation":1,"since":5,"shards":"4-7"}]}`), uint8(5),
		"a:1", "", []byte(`{"incarnation":2}`), false)
	f.Add(uint8(9), "a:1", "b", []byte(SilenceRecord{Incarnation: 2, SilentMS: 2000}.Encode()), uint8(9), "a:1", "c",
		[]byte(`{"silent_ms":-1}`), false)
	f.Add(uint8(8), "x", "", []byte{0xff}, uint8(3), "a:1", "", []byte("null"), true)

	f.Fuzz(func(t *testing.T, kind1 uint8, a1, b1 string, value1 []byte, kind2 uint8, a2, b2 string, value2 []byte,
		del bool) {
		one := KV{Key: keyOf(keys, kind1, a1, b1), Value: value1, CreateRevision: 2, ModRevision: 2, Lease: 7}
		two := KV{Key: keyOf(keys, kind2, a2, b2), Value: value2, CreateRevision: 3, ModRevision: 3, Lease: 7}
		if one.Key == two.Key {
			two.CreateRevision = one.CreateRevision
		}
		before := BuildSnapshot(keys, 1, 2, []KV{one})
		now := []KV{one, two}
		event := Event{KV: two}
		switch {
		case del:
			event, now = Event{KV: KV{Key: one.Key, ModRevision: 3}, Deleted: true}, nil
		case one.Key == two.Key:
			now = []KV{two}
		}
		after := before.Apply(3, []Event{event})
		require.Equal(t, emptyIsNil(*BuildSnapshot(keys, 1, 3, now)), emptyIsNil(*after))
		for _, s := range []*Snapshot{before, after} {
			s.Leader()
			s.Planner()
			for _, m := range s.RegisteredMembers() {
				s.WithLingering(s.LostState(m, after)).WithoutLingering(s.LostState(m, after))
				m.RoundTrip()
			}
			for _, x := range s.Accusations {
				s.AccuserAddress(x)
			}
		}
	})
}

func emptyIsNil(s Snapshot) Snapshot {
	s.Members, s.Queue, s.Accusations = orNil(s.Members), orNil(s.Queue), orNil(s.Accusations)
	s.Drains, s.Released, s.Foreign = orNil(s.Drains), orNil(s.Released), orNil(s.Foreign)
	s.Silences = orNil(s.Silences)
	return s
}

func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}
