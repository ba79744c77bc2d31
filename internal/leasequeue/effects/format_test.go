package effects_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/test/testbed"
)

// Marks keep the fields that this release does not know, and an effect with a mark in a newer format does not run.
func TestMarksMixWithNewerReleases(t *testing.T) {
	s := newTestBed(t, testbed.LongTTL)
	put := func(name, value string) {
		_, err := s.client.Put(s.ctx, s.keys.EffectMark(name), value)
		require.NoError(t, err)
	}
	stored := func(name string) string {
		resp, err := s.client.Get(s.ctx, s.keys.EffectMark(name))
		require.NoError(t, err)
		return string(resp.Kvs[0].Value)
	}
	put("mail 1", `{"state":"failed","attempt":1,"token":1,"by":"z:1","cause":{"code": 7}}`)
	var n atomic.Int32
	r, err := s.a.Once(s.ctx, "mail 1", counts(&n, "sent"))
	require.NoError(t, err)
	require.Equal(t, 2, r.Attempt)
	require.Contains(t, stored("mail 1"), `{"format":1,"state":"done"`)
	require.Contains(t, stored("mail 1"), `,"cause":{"code": 7}}`)

	const newer = `{"format":2,"state":["done"]}`
	put("mail 2", newer)
	_, err = s.a.Once(s.ctx, "mail 2", never)
	require.ErrorIs(t, err, format.ErrFormat)
	require.ErrorContains(t, err, "has format 2")
	require.Equal(t, newer, stored("mail 2"))
}
