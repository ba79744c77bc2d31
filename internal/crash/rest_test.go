package crash

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/state"
)

// standingWatch is a watch on the process i that stands until ctx ends.
type standingWatch struct{ Watch }

func (standingWatch) Instance() string           { return "i" }
func (standingWatch) Heartbeats() bool           { return false }
func (standingWatch) ReportRemoval(int64)        {}
func (standingWatch) Close(context.Context) bool { return true }

func (standingWatch) Wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// standingDialer opens such watches.
type standingDialer struct{ opened []time.Time }

func (d *standingDialer) Watch(context.Context, string, string, func(heartbeat.Beat) bool) (Watch, error) {
	d.opened = append(d.opened, time.Now())
	return standingWatch{}, nil
}

// A process that was removed is watched again when it has registered again. If it was removed for its silence, that is
// at once, however often. If it was removed on evidence that it is gone, though it lives, that is after a rest. The
// next rest is longer only if it has not answered in between.
func TestRestAfterARemoval(t *testing.T) {
	inSilentCase(t, func(c *silentCase) {
		dialer := &standingDialer{}
		c.d.cfg.Dialer = dialer
		defer c.runMirror()()
		m := &state.Member{Address: "a:1", Incarnation: c.incarnation, Record: state.Record{InstanceID: "i"}}
		watchedAfter := func() time.Duration {
			m.Incarnation++
			w := newWatchedMember(c.d, m, c.d.removed[m.InstanceID])
			began, before := time.Now(), len(dialer.opened)
			c.d.wg.Go(w.run)
			<-time.After(time.Minute)
			w.drop()
			c.d.wg.Wait()
			synctest.Wait()
			require.Len(t, dialer.opened, before+1)
			return dialer.opened[before].Sub(began)
		}
		for range 10 {
			c.silence.removing = m
			c.silence.recordGone(1, true)
			require.Zero(t, watchedAfter())
		}
		require.EqualValues(t, 10, c.d.silenceRemovals.Load())
		c.d.rememberRemoval("i")
		require.Equal(t, time.Second, watchedAfter())
		c.d.rememberRemoval("i")
		require.Equal(t, time.Second, watchedAfter(), "it has answered in between")
		c.d.rememberRemoval("i")
		c.d.rememberRemoval("i")
		require.Equal(t, 2*time.Second, watchedAfter())
	})
}
