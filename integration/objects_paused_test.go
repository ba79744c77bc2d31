//go:build unix

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/probepb"
)

// A method has begun when its process is paused past its TTL, and the next owner increments the counter. When
// the process resumes, the method saves regardless of its context and is refused by its epoch, so nothing of it
// is stored. The mutant stores without a condition and overwrites the next owner's value, and the judge detects
// that.
func TestObjectOfPausedOwner(t *testing.T) {
	t.Parallel()
	for _, mutant := range []string{"", unfencedState} {
		t.Run("mutant="+mutant, func(t *testing.T) {
			t.Parallel()
			pausedOwner(t, mutant)
		})
	}
}

func pausedOwner(t *testing.T, mutant string) {
	var l ledger
	w := newObjectWorld(t, briefTTL(), mutant)
	workers := w.start(2)
	former, next := workers[0], workers[1]
	key := w.ownedBy(former)
	ctx, cancel := context.WithTimeout(t.Context(), workPatience)
	defer cancel()
	add := func(request string) *probepb.AddResponse {
		t.Helper()
		reply, err := w.client(key).Add(ctx, &probepb.AddRequest{Amount: 1, Request: request})
		require.NoError(t, err)
		l.acknowledged(key, reply.GetSum())
		return reply
	}
	first := add("first")
	require.Equal(t, former.address, first.GetNode())

	blocked := make(chan error, 1)
	go func() {
		_, err := w.client(key).Do(ctx, &probepb.DoRequest{What: blockBefore, Key: "blocked"})
		blocked <- err
	}()
	former.AwaitOutput(t, patience, saidBegun)
	frozen := former.Freeze(t)
	procs.Await(t, patience, "the caller knows of the next owner", func() error {
		if owner := w.owner(key); owner != next.address {
			return fmt.Errorf("it is %s", owner)
		}
		return nil
	})
	second := add("second")
	t.Logf("the next owner has stored an increment %v after the pause began", brief(time.Since(frozen)))
	require.Equal(t, next.address, second.GetNode())
	require.Greater(t, second.GetEpoch(), first.GetEpoch())
	third := add("third")
	require.EqualValues(t, 3, third.GetSum())
	select {
	case err := <-blocked:
		t.Log("the caller of the blocked method has had its error while the process stood still:", err)
		blocked <- err
	default:
		t.Log("the caller of the blocked method still waits for the process that stands still")
	}
	resume(t, w)
	former.Thaw(t)
	if mutant != "" {
		former.AwaitOutput(t, patience, saidStored)
		require.ErrorContains(t, l.judge(w.stored()), "lost")
		return
	}
	former.AwaitOutput(t, patience, saidFenced)
	former.AwaitOutput(t, patience, saidEnded)
	err := <-blocked
	t.Logf("the caller of the blocked method had its error after %v: %v", brief(time.Since(frozen)), err)
	require.True(t, mayHaveRun(err), "%v", err)
	require.NoError(t, l.judge(w.stored()), "nothing of it is stored")
	require.EqualValues(t, 4, add("blocked").GetSum(), "its caller repeats it")
	require.NoError(t, l.judge(w.stored()))
	w.awaitShared(workers) // the former owner has joined again
}
