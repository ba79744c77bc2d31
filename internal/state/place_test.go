package state

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An entry is found wherever it was last.
func TestPlaceFindsWhatASearchFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var place QueuePlace
		for range rapid.IntRange(1, 6).Draw(t, "looks") {
			s := &Snapshot{}
			for revision := int64(1); revision <= 12; revision++ {
				if rapid.Bool().Draw(t, "there") {
					s.Queue = append(s.Queue, &Candidate{CreateRevision: revision})
				}
			}
			wanted := rapid.Int64Range(0, 13).Draw(t, "wanted")
			var want *Candidate
			for _, c := range s.Queue {
				if c.CreateRevision == wanted {
					want = c
				}
			}
			require.Same(t, want, place.Find(s, wanted))
		}
	})
}
