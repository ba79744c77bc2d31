package watchcache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// Foreign keys below the prefix are ignored, and a few of them are reported, once each.
func TestForeignKeysAreReported(t *testing.T) {
	client, keys, ctx := etcdtest.Client(t), testKeys(t), etcdtest.Context(t)
	put := func(key, value string) int64 {
		resp, err := client.Put(ctx, key, value)
		require.NoError(t, err)
		return resp.Header.Revision
	}
	put(keys.Node("a:1"), "no record")
	log := &logtest.Buffer{}
	m := New(Config{Process: etcd.Process{Client: client, Keys: keys, Logger: log.Logger()}})
	run(t, m)
	seen := func(revision int64) *state.Snapshot {
		s, err := m.Wait(ctx, func(s *state.Snapshot) bool { return s.Revision >= revision })
		require.NoError(t, err)
		return s
	}
	// at returns the snapshot of a revision when the mirror has logged what it has to say of it, which is before it
	// shows the next one.
	at := func(revision int64) *state.Snapshot {
		s := seen(revision)
		seen(put(keys.Doctor("next"), ""))
		return s
	}
	const says = "ignoring a key in the cluster's range"
	log.Await(t, says)
	require.NotNil(t, m.Snapshot().Member("a:1"), "a member all the same: it holds its address")
	at(put(keys.RangeStart()+"x", "1"))
	at(put(keys.RangeStart()+"x", "2"))
	require.Contains(t, log.String(), "key=/goverse/leader-x error=\"it is no key of a Goverse cluster\"")
	s := at(put(keys.Node("a:1"), state.Record{}.Encode()))
	require.Len(t, s.Foreign, 1, "the record can be read now")
	require.Equal(t, 2, strings.Count(log.String(), says), log.String())
	at(put(keys.Drain("a:1"), `{"format":2}`))
	newer := log.Line(says, keys.Drain("a:1"))
	require.Contains(t, newer, "a newer release of Goverse wrote:")
	require.Contains(t, newer, "use a release of Goverse that reads format 2")
	for _, key := range []string{keys.RangeStart() + "x", keys.Drain("a:1")} {
		_, err := client.Delete(ctx, key)
		require.NoError(t, err)
	}
	for i := range 2 * maxForeignReported {
		at(put(fmt.Sprintf("%sy%d", keys.RangeStart(), i), ""))
	}
	require.Equal(t, maxForeignReported, strings.Count(log.String(), says))
	require.Len(t, at(put(keys.Doctor("1"), "")).Foreign, 2*maxForeignReported, "goversed doctor's is none")
	require.NotContains(t, log.String(), keys.Doctor("1"))

	at(put(keys.Prefix()+"/shard/0", "a:1,a:1"))
	at(put(keys.Prefix()+"/shard/1", "a:1,a:1"))
	require.Equal(t, 1, strings.Count(log.String(), "the original goverse uses this prefix"))
}
