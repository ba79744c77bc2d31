package registration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A process that does not read the cluster's format does not register. It joins as soon as it may.
func TestFormatKeepsAProcessOut(t *testing.T) {
	t.Parallel()
	ctx, client := etcdtest.Context(t), etcdtest.Start(t).Client()
	keys, err := state.NewKeys("/formats")
	require.NoError(t, err)
	put := func(key, value string) {
		_, err := client.Put(ctx, key, value)
		require.NoError(t, err)
	}
	join := func() error {
		r, err := New(Config{Process: etcd.Process{Client: client, Keys: keys, Address: "a:1"}, TTL: 10 * time.Second,
			Record: state.Record{InstanceID: "own", ElectionOnly: true}})
		require.NoError(t, err)
		r.Start()
		s, err := r.AwaitRegistered(ctx)
		if err == nil {
			require.Equal(t, format.Own(), s.Member("a:1").Formats, "others can read it")
			require.Equal(t, format.Release(), s.Member("a:1").Goverse)
		}
		require.NoError(t, r.EndSession())
		r.Close()
		return err
	}
	member := state.Record{InstanceID: "i", Goverse: "v0.9.0", Formats: format.Range{Oldest: 2, Newest: 3}}
	put(keys.Node("b:1"), member.Encode())
	err = join()
	require.ErrorIs(t, err, format.ErrFormat)
	require.ErrorContains(t, err, "the cluster under /formats, by its member b:1, has format 3 (of Goverse v0.9.0)")
	resp, err := client.Get(ctx, keys.RangeStart(), clientv3.WithRange(keys.RangeEnd()))
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1, "it has written nothing")
	require.EqualValues(t, 1, resp.Kvs[0].Version)

	put(keys.Node("b:1"), state.Record{InstanceID: "i"}.Encode())
	require.NoError(t, join())
	const newer = `{"version":2}`
	put(keys.ShardMap(), newer)
	require.ErrorIs(t, join(), format.ErrFormat)
	resp, err = client.Get(ctx, keys.ShardMap())
	require.NoError(t, err)
	require.Equal(t, newer, string(resp.Kvs[0].Value))
}
