//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/examples/chat/chatpb"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// silentStore is a store that does not answer some saves, and carries out half of those.
type silentStore struct {
	state.Store
	saves atomic.Int64
}

// Save implements state.Store.
func (s *silentStore) Save(ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
	switch s.saves.Add(1) % 6 {
	case 2:
		return 0, state.ErrOutcomeUnknown
	case 5:
		_, _ = s.Store.Save(ctx, ref, w)
		return 0, state.ErrOutcomeUnknown
	}
	return s.Store.Save(ctx, ref, w)
}

// When it is unknown whether a message was stored, the room is activated again, its subscribers come back, and
// the message is there once.
func TestStoreThatDoesNotAnswer(t *testing.T) {
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window = 16, 20*time.Millisecond
	}))
	n, store := c.NewNode(), &silentStore{Store: &state.Memory{}}
	register(n.Cluster(), store)
	require.NoError(t, n.Start(etcdtest.Context(t)))
	v := enter(t, "ann", n.Address())

	ctx, stop := context.WithCancel(etcdtest.Context(t))
	var view seen
	var subscription sync.WaitGroup
	defer subscription.Wait()
	defer stop()
	subscription.Go(func() { assert.ErrorIs(t, v.subscribe(ctx, view.show), context.Canceled) })
	const messages = 12
	for i := range messages {
		number, err := v.post(etcdtest.Context(t), fmt.Sprint("message ", i))
		require.NoError(t, err)
		require.EqualValues(t, i+1, number)
		require.Eventually(t, func() bool { return view.last.Load() == number }, patience, time.Millisecond)
	}
	require.Greater(t, store.saves.Load(), int64(messages))
	stop()
	subscription.Wait()
	require.Equal(t, messages, len(view.all))
	for i, m := range view.all {
		require.Equal(t, fmt.Sprint("message ", i), m.GetText())
	}
}

// A visitor that was away for longer than the room keeps messages is notified of the number it missed.
func TestMissingMessages(t *testing.T) {
	c := clustertest.New(t, 0, clustertest.WithConfig(func(_ int, cfg *cluster.Config) {
		cfg.Sharding.Shards, cfg.Sharding.Window = 16, 20*time.Millisecond
	}))
	n := c.NewNode()
	register(n.Cluster(), &state.Memory{})
	require.NoError(t, n.Start(etcdtest.Context(t)))
	v := enter(t, "ann", n.Address())
	post := func(count int) {
		for i := range count {
			_, err := v.post(etcdtest.Context(t), fmt.Sprint(i, strings.Repeat(" long", longest/6)))
			require.NoError(t, err)
		}
	}
	post(2)
	ctx, stop := context.WithCancel(etcdtest.Context(t))
	defer stop()
	const more = 5 * maxMessages // also more than gRPC buffers
	var all []*chatpb.Message
	err := v.subscribe(ctx, func(m *chatpb.Message) {
		switch all = append(all, m); m.GetNumber() {
		case 2: // it is slow: meanwhile more messages come than the room keeps
			post(more)
		case 2 + more:
			stop()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	next, missed := int64(1), int64(0)
	for _, m := range all {
		if m.GetNumber() == 0 {
			_, err := fmt.Sscanf(m.GetText(), "%d messages are missing", &missed)
			require.NoError(t, err)
			next += missed
			continue
		}
		require.Equal(t, next, m.GetNumber())
		next++
	}
	require.EqualValues(t, 3+more, next)
	require.NotZero(t, missed)
}
