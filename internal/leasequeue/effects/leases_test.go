package effects

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

const day, patience = 24 * time.Hour, 10 * time.Second

func TestLeaseTakesMarks(t *testing.T) {
	t.Parallel()
	end := deadline.Instant{Mono: 100, Wall: 1000}
	early := deadline.Instant{Mono: 99, Wall: 999}
	for what, c := range map[string]struct {
		room int
		now  deadline.Instant
		ok   bool
	}{
		"room for one":                        {1, early, true},
		"room for many":                       {7, early, true},
		"no room":                             {0, early, false},
		"the time is over":                    {7, end, false},
		"over by the clock that can be set":   {7, deadline.Instant{Mono: 0, Wall: 1000}, false},
		"over by the one that stands still":   {7, deadline.Instant{Mono: 100, Wall: 0}, false},
		"both clocks say that there is time":  {7, deadline.Instant{}, true},
		"neither room, nor is there any time": {0, end, false},
	} {
		was := sharedLease{3, end, c.room}
		next, ok := was.addKey(c.now)
		require.Equal(t, c.ok, ok, what)
		if ok {
			require.Equal(t, sharedLease{3, end, c.room - 1}, next, what)
		}
	}
	_, ok := sharedLease{}.addKey(deadline.Instant{})
	require.False(t, ok, "there is none at the beginning")
}

func TestSpare(t *testing.T) {
	t.Parallel()
	for drawn, want := range map[float64]time.Duration{0: 90 * time.Minute, 0.5: 7*time.Hour +
		30*time.Minute, 0.9999999: 13*time.Hour + 30*time.Minute} {
		require.InDelta(t, want, spareTime(day, drawn), float64(time.Second), "%v", drawn)
	}
	require.EqualValues(t, 60, ceilSeconds(time.Minute))
	require.EqualValues(t, 61, ceilSeconds(time.Minute+1))
}

// Leases last long enough, and do not end together.
func TestLeasesEndApart(t *testing.T) {
	t.Parallel()
	const many = 40
	ctx, client := etcdtest.Context(t), etcdtest.Client(t)
	l := newLeasePool(client, day, patience)
	on, ttls := map[clientv3.LeaseID]int{}, map[int64]bool{}
	for range many * marksPerLease {
		id, err := l.leaseForKey(ctx)
		require.NoError(t, err)
		on[id]++
	}
	require.Len(t, on, many)
	for id, n := range on {
		require.Equal(t, marksPerLease, n)
		resp, err := client.TimeToLive(ctx, id)
		require.NoError(t, err)
		require.GreaterOrEqual(t, resp.GrantedTTL, ceilSeconds(day+day/16+patience))
		require.LessOrEqual(t, resp.GrantedTTL, ceilSeconds(day+9*day/16+patience))
		ttls[resp.GrantedTTL] = true
	}
	require.Greater(t, len(ttls), many*3/4, "of so many seconds few are drawn twice")
}

// A shared lease leaves the last mark its full retention, by either clock: a clock that was set back or stood
// still does not prolong its use.
func TestEitherClockEndsTheUseOfALease(t *testing.T) {
	t.Parallel()
	ctx, client := etcdtest.Context(t), etcdtest.Client(t)
	for what, later := range map[string]deadline.Instant{
		"the wall clock was set back": {Mono: int64(14 * time.Hour), Wall: int64(-time.Hour)},
		"the machine was suspended":   {Mono: 0, Wall: int64(14 * time.Hour)},
	} {
		began := deadline.Now()
		l := newLeasePool(client, day, patience)
		l.now = func() deadline.Instant { return began }
		first, err := l.leaseForKey(ctx)
		require.NoError(t, err)
		same, err := l.leaseForKey(ctx)
		require.NoError(t, err)
		require.Equal(t, first, same, what)
		l.now = func() deadline.Instant {
			return deadline.Instant{Mono: began.Mono + later.Mono, Wall: began.Wall + later.Wall}
		}
		next, err := l.leaseForKey(ctx)
		require.NoError(t, err)
		require.NotEqual(t, first, next, what)
	}
}

func TestLostLease(t *testing.T) {
	t.Parallel()
	ctx, l := etcdtest.Context(t), newLeasePool(etcdtest.Client(t), day, patience)
	first, err := l.leaseForKey(ctx)
	require.NoError(t, err)
	l.dropLease(first)
	next, err := l.leaseForKey(ctx)
	require.NoError(t, err)
	require.NotEqual(t, first, next)
	l.dropLease(first) // a second report of the loss
	same, err := l.leaseForKey(ctx)
	require.NoError(t, err)
	require.Equal(t, next, same)
}

// A caller that waits during the grant of a lease stops waiting when its context ends.
func TestTakingALeaseEndsWithTheContext(t *testing.T) {
	t.Parallel()
	l := newLeasePool(nil, day, patience)
	<-l.current
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	_, err := l.leaseForKey(ctx)
	require.ErrorIs(t, err, over)
}
