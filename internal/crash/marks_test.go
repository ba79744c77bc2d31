package crash

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// The mark of a removal is deleted when its time is over by the clock of this process.
func TestMarkOfRemovalIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := modeletcd.New()
		defer server.Close()
		client := server.Connect("", func(any) modeletcd.Delivery { return modeletcd.Delivery{} }).Client()
		keys, err := state.NewKeys("/g")
		require.NoError(t, err)
		now := time.Duration(0)
		d := New(Config{InstanceID: "x", Process: etcd.Process{Client: client,
			Clock: func() deadline.Instant { return deadline.Instant{Mono: int64(now)} }}})
		mark := state.KV{Key: keys.Accusation("gone:1", "x"),
			Value: []byte(state.AccusationRecord{Incarnation: 2, Removed: true}.Encode())}
		put, err := client.Put(t.Context(), mark.Key, string(mark.Value))
		require.NoError(t, err)
		mark.CreateRevision, mark.ModRevision = put.Header.Revision, put.Header.Revision
		shown := state.BuildSnapshot(keys, 1, put.Header.Revision, []state.KV{mark})
		require.Equal(t, markLasts, d.withdrawVoid(t.Context(), shown))
		now = markLasts - 1
		require.EqualValues(t, 1, d.withdrawVoid(t.Context(), shown))
		require.Len(t, server.Keys(mark.Key), 1)
		now = markLasts
		require.Zero(t, d.withdrawVoid(t.Context(), shown))
		require.Empty(t, server.Keys(mark.Key))
	})
}
