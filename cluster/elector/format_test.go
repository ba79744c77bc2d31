package elector_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/elector"
)

// A store keeps the fields of a record that it does not know, and leaves a record in a newer format alone.
func TestEtcdMixesWithNewerReleases(t *testing.T) {
	s := newTestBed(t)
	client, key := s.client(), s.keys.LeaseRecord("it")
	put := func(value string) {
		_, err := client.Put(s.ctx, key, value)
		require.NoError(t, err)
	}
	stored := func() string {
		resp, err := client.Get(s.ctx, key)
		require.NoError(t, err)
		return string(resp.Kvs[0].Value)
	}
	put(`{"holderIdentity":"a","leaderTransitions":3,"zone":{"name":"z"}}`)
	store := s.store(client, "it")
	lease, err := store.GetLease(s.ctx)
	require.NoError(t, err)
	for range 2 {
		lease.LeaderTransitions++
		lease, err = store.UpdateLease(s.ctx, lease)
		require.NoError(t, err)
		require.Contains(t, stored(), `{"format":1,"holderIdentity":"a"`)
		require.Contains(t, stored(), `,"zone":{"name":"z"}}`)
	}

	const newer = `{"format":2,"holderIdentity":["a","b"]}`
	put(newer)
	_, err = store.GetLease(s.ctx)
	require.ErrorIs(t, err, elector.ErrFormat)
	require.ErrorContains(t, err, key+" has format 2")
	lease.HolderIdentity = ""
	_, err = store.UpdateLease(s.ctx, lease)
	require.ErrorIs(t, err, elector.ErrConflict)
	require.Equal(t, newer, stored())
}
