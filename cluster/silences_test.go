package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
)

// The silence of a member is measured by the clock of the node that shows it.
func TestSilences(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/p")
	require.NoError(t, err)
	said := func(revision int64, watcher string, ms int64) state.KV {
		return state.KV{Key: keys.Silence("a:1", watcher), CreateRevision: revision, ModRevision: revision,
			Value: []byte(state.SilenceRecord{Incarnation: 2, SilentMS: ms}.Encode())}
	}
	a := memberKV(keys, "a:1", 2, func(*state.Record) {})
	of := func(l *silenceReports, s *state.Snapshot, at int64) (time.Duration, int) {
		return l.silenceAt(s, s.Member("a:1"), time.Unix(at, 0))
	}
	var l silenceReports
	s := state.BuildSnapshot(keys, 1, 5, []state.KV{a})
	l.record(s, time.Unix(100, 0))
	long, to := of(&l, s, 101)
	require.Zero(t, long)
	require.Zero(t, to)
	s = state.BuildSnapshot(keys, 1, 6, []state.KV{a, said(6, "x", 2000)})
	long, _ = of(&l, s, 500)
	require.Equal(t, 2*time.Second, long, "this node has just learned of it")
	l.record(s, time.Unix(101, 0))
	s = state.BuildSnapshot(keys, 1, 7, []state.KV{a, said(6, "x", 2000), said(7, "y", 2100)})
	l.record(s, time.Unix(102, 0))
	long, to = of(&l, s, 105)
	require.Equal(t, 6*time.Second, long, "since x said it")
	require.Equal(t, 2, to)
	s = state.BuildSnapshot(keys, 1, 8, []state.KV{a, said(8, "x", 7000)})
	l.record(s, time.Unix(106, 0))
	long, to = of(&l, s, 107)
	require.Equal(t, 8*time.Second, long)
	require.Equal(t, 1, to)
}
