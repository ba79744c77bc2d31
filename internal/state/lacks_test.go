package state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A snapshot lacks nothing at a later revision if and only if the keys are still the same. Total counts all of
// them, however the snapshot was made.
func TestLacksIsExact(t *testing.T) {
	keys, err := NewKeys("/g")
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	same, differ := 0, 0
	for range 2000 {
		held := map[string]KV{}
		s := BuildSnapshot(keys, 1, 1, nil)
		var stopped *Snapshot
		var then map[string]KV
		for revision := int64(2); revision < 12; revision++ {
			key := fmt.Sprintf("/g/other/%d", rng.IntN(3)) // a key without meaning, which counts
			if rng.IntN(2) == 0 {
				key = keys.Candidate(rng.Int64N(3) + 1)
			}
			was, exists := held[key]
			ev := Event{KV: KV{Key: key, ModRevision: revision}}
			switch {
			case rng.IntN(4) == 0: // a write elsewhere
				continue
			case exists && rng.IntN(2) == 0:
				ev.Deleted = true
				delete(held, key)
			case exists:
				ev.CreateRevision = was.CreateRevision
				held[key] = ev.KV
			default:
				ev.CreateRevision = revision
				held[key] = ev.KV
			}
			s = s.Apply(revision, []Event{ev})
			require.Equal(t, len(held), s.Total)
			if stopped == nil && rng.IntN(3) == 0 {
				stopped, then = s, map[string]KV{}
				for k, kv := range held {
					then[k] = kv
				}
			}
		}
		if stopped == nil {
			continue
		}
		var newest int64
		equal := len(held) == len(then)
		var all []KV
		for k, kv := range held {
			newest = max(newest, kv.ModRevision)
			equal = equal && then[k].ModRevision == kv.ModRevision
			all = append(all, kv)
		}
		require.Equal(t, len(all), BuildSnapshot(keys, 1, 12, all).Total)
		require.Equal(t, !equal, stopped.MissesChange(newest, len(held)))
		if equal {
			same++
		} else {
			differ++
		}
	}
	require.Greater(t, same, 20)
	require.Greater(t, differ, 20)
}
