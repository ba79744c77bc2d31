package elector

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// watchedLink is a link to a store that can be watched, by a function of the test.
type watchedLink struct {
	*link
	watch func(ctx context.Context, changed func()) error
}

func (w watchedLink) Watch(ctx context.Context, changed func()) error { return w.watch(ctx, changed) }

// watching makes a candidate watch its store with a function.
func watching(watch func(ctx context.Context, changed func()) error) func(*candidate, *Config) {
	return func(c *candidate, cfg *Config) { cfg.LeaseStore = watchedLink{c.link, watch} }
}

// A hint makes the elector read at once, and further hints make it read after pauses. A leader reads for no hint.
func TestHintsCauseReadsWithPauses(t *testing.T) {
	at := func(ms int64) deadline.Instant { return deadline.Instant{Mono: ms * int64(time.Millisecond)} }
	s := leaseState{duration: 10 * time.Second, period: 2 * time.Second, next: at(0).Mono, hintsSpent: at(0).Mono}
	s = s.withRead(Lease{HolderIdentity: "z", HolderInstance: "z", Version: "1"}, true, at(0))
	require.Equal(t, at(2000).Mono, s.next)
	for _, hint := range []struct {
		at, read int64
		more     bool // another hint comes before the read
	}{
		{at: 500, read: 500}, {at: 501, read: 501}, {at: 502, read: 502}, {at: 503, read: 503}, {at: 504, read: 504},
		{at: 505, read: 600, more: true}, {at: 506, read: 600, more: true}, {at: 599, read: 600},
		{at: 601, read: 700}, {at: 750, read: 800},
		{at: 2000, read: 2000}, {at: 2001, read: 2001},
	} {
		s = s.withHint(at(hint.at))
		require.Equal(t, at(hint.read).Mono, s.next, hint.at)
		if !hint.more {
			s = s.withRead(s.record, true, at(hint.read))
		}
	}
	s.leading = true
	require.Equal(t, s, s.withHint(at(5000)))
}

// A watch that signals without end makes a candidate read ten times a second.
func TestAWatchThatSignalsWithoutEnd(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		a := stand(t, "a", store)
		synctest.Wait()
		b := stand(t, "b", store, watching(func(ctx context.Context, changed func()) error {
			for tick := time.NewTicker(time.Millisecond); ; {
				select {
				case <-tick.C:
					changed()
				case <-ctx.Done():
					tick.Stop()
					return ctx.Err()
				}
			}
		}))
		synctest.Wait()
		before := b.requests()
		pass(10 * time.Second)
		require.InDelta(t, 100, b.requests()-before, 5)
		require.True(t, a.IsLeader())
		a.stop()
		pass(time.Second)
		require.True(t, b.IsLeader())
		before = b.requests()
		pass(20 * time.Second)
		require.LessOrEqual(t, b.requests()-before, 15, "a leader renews every RetryPeriod")
	})
}

// A watch that fails, panics or leaves its goroutine begins again after a pause, with one line of the log when it
// fails and one when it is restored. The candidate reads every RetryPeriod meanwhile.
func TestAWatchThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		var tries []time.Time
		_, stopped := standLogging(t, store, watching(func(ctx context.Context, changed func()) error {
			tries = append(tries, time.Now())
			switch len(tries) {
			case 1:
				return errors.New("no\nroute")
			case 2:
				panic("at the disco")
			case 3:
				runtime.Goexit()
			case 4:
				changed()
				return errAway
			}
			return store.Watch(ctx, changed)
		}))
		pass(time.Minute)
		said := stopped()
		require.Len(t, tries, 5)
		for i, try := range tries[1:] {
			require.GreaterOrEqual(t, try.Sub(tries[i]), 800*time.Millisecond)
		}
		require.Equal(t, 2, strings.Count(said, "cannot be watched"), said)
		require.Equal(t, 2, strings.Count(said, "watched again"), said)
	})
}

// A store that cannot be watched is asked once.
func TestAStoreThatCannotBeWatched(t *testing.T) {
	bubble(t, func(t *testing.T, store *Memory) {
		calls := 0
		a := stand(t, "a", store, watching(func(context.Context, func()) error { calls++; return nil }))
		pass(time.Minute)
		require.True(t, a.IsLeader())
		synctest.Wait()
		require.Equal(t, 1, calls)
	})
}
