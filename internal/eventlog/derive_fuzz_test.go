package eventlog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

// Whatever others write below the prefix, events can be derived from it, and each has a key of its own in the
// log.
func FuzzDerive(f *testing.F) {
	keys, err := state.NewKeys("/g")
	require.NoError(f, err)
	f.Add([]byte(`{"lease":7}`), []byte(`{"lease":7,"draining":true}`), []byte(`{"incarnation":2,"evidence":"x"}`), "a:1",
		int64(7), int64(9))
	f.Add([]byte(`{"stopping":true}`), []byte(``), []byte(`{"version":1,"shards":8,"generation":5}`), "a:1", int64(-7),
		int64(2))
	f.Fuzz(func(t *testing.T, first, then, other []byte, address string, lease, revision int64) {
		at := func(revision int64, record []byte) *state.Snapshot {
			return state.BuildSnapshot(keys, 1, revision, []state.KV{
				{Key: keys.Node(address), Value: record, CreateRevision: 2, ModRevision: revision, Lease: lease},
				{Key: keys.Candidate(lease), Value: []byte(address), CreateRevision: revision, ModRevision: revision},
				{Key: keys.Accusation(address, "b"), Value: other, CreateRevision: revision, ModRevision: revision},
				{Key: keys.ShardMap(), Value: other, CreateRevision: 3, ModRevision: revision},
				{Key: keys.Acting(), Value: first, CreateRevision: revision, ModRevision: revision}})
		}
		empty := state.BuildSnapshot(keys, 1, 1, nil)
		one, two := at(2, first), at(revision, then)
		for _, pair := range [][2]*state.Snapshot{{empty, one}, {one, two}, {two, empty}} {
			for _, e := range DeriveEvents(pair[0], pair[1]) {
				require.NotEmpty(t, e.Type)
				require.True(t, strings.HasPrefix(e.ID, string(e.Type)+"-"), e.ID)
				require.NotContains(t, e.ID, "/")
				id, ok := keys.EventID(keys.Event(e.ID))
				require.True(t, ok)
				require.Equal(t, e.ID, id)
			}
		}
	})
}
