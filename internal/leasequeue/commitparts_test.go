package leasequeue

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whichever elements etcd refuses, and however many it takes at a time: each other one is committed once, in order, and
// each refused one is found alone.
func TestCommitInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		denied := rapid.SliceOfN(rapid.Bool(), 0, 40).Draw(t, "denied")
		limit, most := rapid.IntRange(1, 40).Draw(t, "limit"), rapid.IntRange(1, 40).Draw(t, "most")
		all := make([]int, len(denied))
		for i := range all {
			all[i] = i
		}
		var done, refused []int
		require.NoError(t, commitInParts(all, limit, func(part []int) ([]int, error) {
			require.LessOrEqual(t, len(part), limit)
			switch any := slices.ContainsFunc(part, func(i int) bool { return denied[i] }); {
			case len(part) > 1 && (any || len(part) > most):
				return part, nil
			case any:
				refused = append(refused, part...)
			default:
				done = append(done, part...)
			}
			return nil, nil
		}))
		for i, no := range denied {
			require.Equal(t, no, slices.Contains(refused, i))
		}
		require.True(t, slices.IsSorted(done))
		require.Len(t, done, len(all)-len(refused))
	})
}

func TestCommitInPartsEndsWithAnError(t *testing.T) {
	lost, calls := errors.New("lost"), 0
	err := commitInParts([]int{1, 2, 3, 4}, 4, func(part []int) ([]int, error) {
		if calls++; len(part) > 1 {
			return part, nil
		}
		return nil, lost
	})
	require.ErrorIs(t, err, lost)
	require.Equal(t, 3, calls, "all, a half, and the first")
}
