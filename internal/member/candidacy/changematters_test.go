package candidacy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

func TestGone(t *testing.T) {
	keys := keysForTest()
	key := keys.Candidate(1)
	s := state.BuildSnapshot(keys, 1, 100, []state.KV{{Key: key, Value: []byte("a:1"), CreateRevision: 20, ModRevision: 20,
		Lease: 1}})
	var p, q KeyTracker
	for range 2 { // the second time its place is known
		require.False(t, p.KeyGone(s, key, 20), "it stands")
		require.True(t, p.KeyGone(s, key, 19), "it went and came back")
		require.True(t, q.KeyGone(s, keys.Candidate(2), 100), "absent")
		require.False(t, q.KeyGone(s, keys.Candidate(2), 101), "the snapshot is too old to say")
	}
}
