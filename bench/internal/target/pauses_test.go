package target

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fake is a node that serves the shards in has.
type fake struct{ has map[int]bool }

func serving(shards ...int) *fake {
	f := &fake{map[int]bool{}}
	for _, shard := range shards {
		f.has[shard] = true
	}
	return f
}

func (f *fake) Serves(shard int) (int64, bool) { return 1, f.has[shard] }

func TestPausesAreFromTheLastYesToTheFirst(t *testing.T) {
	a, b := serving(0, 1), serving()
	s := newSampler(2)
	s.follow(a)
	s.follow(b)
	s.look()
	require.Zero(t, s.nobody)
	require.Empty(t, s.pauses)
	require.True(t, s.served([]server{a, a}))

	last := s.shards[1].yes
	a.has[1] = false
	s.look()
	require.Equal(t, 1, s.nobody)
	require.Equal(t, last, s.shards[1].yes, "it said yes the last time before")
	b.has[1] = true
	s.look()
	require.Zero(t, s.nobody)
	require.Len(t, s.pauses, 1)
	require.LessOrEqual(t, s.pauses[0], time.Since(last))
	require.Positive(t, s.pauses[0])

	a.has[0], b.has[0] = false, true // between two looks
	s.look()
	require.Len(t, s.pauses, 2)
	b.has[1] = false
	s.look()
	b.has[1] = true // and back
	s.look()
	require.Len(t, s.pauses, 3)
	require.Zero(t, s.twice)
}

func TestTwoThatServeAShardAtOnceAreSeen(t *testing.T) {
	a, b := serving(0), serving()
	s := newSampler(1)
	s.follow(a)
	s.follow(b)
	s.look()
	b.has[0] = true
	s.look()
	require.Equal(t, 1, s.twice)
}

func TestAwaitTellsWhichPausesThereWere(t *testing.T) {
	a, b := serving(0), serving()
	s := newSampler(1)
	s.follow(a)
	s.follow(b)
	s.look()
	s.forget(a)
	b.has[0] = true
	s.look()
	pauses, err := s.await(t.Context(), func() ([]server, bool) { return []server{b}, true })
	require.NoError(t, err)
	require.Len(t, pauses, 1)

	over, cancel := context.WithCancel(t.Context())
	cancel()
	pauses, err = s.await(over, func() ([]server, bool) { return []server{a}, true })
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, pauses)
}
