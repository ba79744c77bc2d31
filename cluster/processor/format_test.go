package processor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// Checkpoints keep the fields that this release does not know, and one in a newer format stays as it is.
func TestCheckpointsMixWithNewerReleases(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	p, client, ctx := connect(t, server.Endpoint()), etcdtest.Dial(t, server.Endpoint()), etcdtest.Context(t)
	put := func(key, value string) {
		_, err := client.Put(ctx, key, value)
		require.NoError(t, err)
	}
	stored := func(name string) string {
		resp, err := client.Get(ctx, checkpoints+name)
		require.NoError(t, err)
		return string(resp.Kvs[0].Value)
	}
	put(checkpoints+"it", `{"position":"7","token":2,"shard":"a"}`)
	m, err := p.etcd.Claim(ctx, "it", 3)
	require.NoError(t, err)
	require.Equal(t, `{"format":1,"position":"7","token":3,"claims":1,"shard":"a"}`, stored("it"))
	m, err = p.etcd.Advance(ctx, "it", m, to("8"))
	require.NoError(t, err)
	m, err = p.etcd.Advance(ctx, "it", m, to("9"))
	require.NoError(t, err)
	require.Equal(t, `{"format":1,"position":"9","token":3,"claims":1,"shard":"a"}`, stored("it"))
	_, err = p.etcd.Advance(ctx, "it", m, func(context.Context) (processor.Progress, error) {
		return processor.Progress{Position: "9", Parked: []processor.Parked{{Position: "9"}}}, nil
	})
	require.NoError(t, err)
	parked, err := client.Get(ctx, "/goverse/work/parked/it/9")
	require.NoError(t, err)
	require.Contains(t, string(parked.Kvs[0].Value), `{"format":1,"position":"9",`)
	require.NoError(t, p.etcd.Rewind(ctx, "it", "1"))
	require.NoError(t, p.etcd.Unfence(ctx, "it"))
	require.Equal(t, `{"format":1,"position":"1","token":0,"replay":"9","claims":1,"shard":"a"}`, stored("it"))

	put("/goverse/work/pauses/it", `{"paused":true,"until":"noon"}`)
	require.NoError(t, p.etcd.RequestPause(ctx, "it", processor.PauseRequest{}))
	pause, err := client.Get(ctx, "/goverse/work/pauses/it")
	require.NoError(t, err)
	require.Contains(t, string(pause.Kvs[0].Value), `"until":"noon"`)
	m, err = p.etcd.Claim(ctx, "it", 3)
	require.NoError(t, err)
	put("/goverse/work/reports/it", `{"format":2}`)
	standing, err := p.etcd.Look(ctx, "it")
	require.NoError(t, err)
	require.Nil(t, standing.Report, "of a newer release")
	_, err = p.etcd.Report(ctx, "it", processor.Report{Status: processor.Status{Token: 3}, Claim: m.Claim})
	require.NoError(t, err, "each leader replaces the report")

	const newer = `{"format":2,"position":{"a":"1"}}`
	put(checkpoints+"new", newer)
	_, err = p.etcd.Claim(ctx, "new", 3)
	require.ErrorIs(t, err, processor.ErrFormat)
	require.ErrorContains(t, err, "has format 2")
	require.ErrorIs(t, p.etcd.Rewind(ctx, "new", ""), processor.ErrFormat)
	require.ErrorIs(t, p.etcd.Unfence(ctx, "new"), processor.ErrFormat)
	require.Equal(t, newer, stored("new"))
	require.ErrorIs(t, p.etcd.RequestPause(ctx, "new", processor.PauseRequest{}), processor.ErrFormat)
	put("/goverse/work/pauses/newer", newer)
	require.ErrorIs(t, p.etcd.RequestPause(ctx, "newer", processor.PauseRequest{}), processor.ErrFormat)
	_, err = p.etcd.Claim(ctx, "newer", 3)
	require.ErrorIs(t, err, processor.ErrFormat)
	put("/goverse/work/parked/new/1", newer)
	_, err = p.etcd.Parked(ctx, "new")
	require.ErrorIs(t, err, processor.ErrFormat)
}
