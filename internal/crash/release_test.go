package crash

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/crash/silence"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// armingWatch is a watch by which the member arms this process at once, or not at all. A goodbye is received unless ctx
// has ended.
type armingWatch struct {
	Watch
	heartbeats uint64 // heard
}

func (w *armingWatch) Close(ctx context.Context) bool { return ctx.Err() == nil }
func (w *armingWatch) Heartbeats() bool               { return true }
func (w *armingWatch) Heard() uint64                  { return w.heartbeats }
func (w *armingWatch) Instance() string               { return "" }
func (w *armingWatch) ReportRemoval(int64)            {}

// armingDialer opens watches on a member that arms its watchers once arms is set.
type armingDialer struct {
	mu    sync.Mutex
	arms  bool
	beats uint64 // heartbeats that are heard, also if none arms
	opens int
}

func (d *armingDialer) Watch(_ context.Context, _, _ string, heard func(heartbeat.Beat) bool) (Watch, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opens++
	if d.arms {
		heard(beatOf(uint64(d.opens)))
	}
	return &armingWatch{heartbeats: d.beats}, nil
}

var silenceTimes = deadline.ProofTimesOf(3500 * time.Millisecond)

func beatOf(arming uint64) heartbeat.Beat {
	return heartbeat.Beat{Number: 10 * arming, Arming: arming, Watched: 3, Watcher: 5, Times: silenceTimes}
}

// silentCase is a case about the member a:1, whose judge counts for a session of this process, in virtual time.
type silentCase struct {
	*watchedMember
	session *etcdsession.Session
	own     *state.Member
	dialer  *armingDialer
	lost    func(request any) bool // loses a request to etcd; nil: none is lost
}

func inSilentCase(t *testing.T, f func(c *silentCase)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		model := modeletcd.New()
		defer model.Close()
		c := &silentCase{own: &state.Member{Address: "x:1", Incarnation: 5}}
		conn := model.Connect("", func(request any) modeletcd.Delivery {
			return modeletcd.Delivery{Lost: c.lost != nil && c.lost(request)}
		})
		s, err := etcdsession.Open(t.Context(), etcdsession.Config{TTL: time.Minute, ReadKey: "/g/x",
			Process: etcd.Process{Client: conn.Client()}})
		require.NoError(t, err)
		defer func() { _ = s.Close(t.Context()) }()
		dialer := &armingDialer{}
		began := time.Now()
		clock := func() deadline.Instant { return deadline.Instant{Mono: int64(time.Since(began))} }
		process := etcd.Process{Client: conn.Client(), Clock: clock}
		keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: process}, etcdsession.Hooks{}) // does not run
		require.NoError(t, err)
		d := New(Config{Process: process, Dialer: dialer, Keeper: keeper,
			Mirror: watchcache.New(watchcache.Config{Process: process})})
		defer d.Stop(t.Context())
		c.watchedMember = newWatchedMember(d, &state.Member{Address: "a:1", Incarnation: 3}, 0)
		c.session, c.dialer = s, dialer
		f(c)
	})
}

func (c *silentCase) beat(arming uint64) bool {
	return c.silence.onBeat(beatOf(arming), c.own, c.session)
}

// runMirror runs the mirror until stop is called.
func (c *silentCase) runMirror() (stop func()) {
	ctx, cancel := context.WithCancel(c.d.ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = c.d.cfg.Mirror.Run(ctx) })
	<-c.d.cfg.Mirror.Ready()
	return func() {
		cancel()
		running.Wait()
	}
}

// passUnheard lets time pass in which no heartbeat arrives, as silenceLoop sees it.
func (c *silentCase) passUnheard(d time.Duration) {
	for range d / heartbeat.CheckEvery {
		<-time.After(heartbeat.CheckEvery)
		c.checkSilence()
	}
}

// A heartbeat that arrives between the release and the goodbye arms no more: the member counts on the goodbye.
func TestReleasedJudgeIsNotArmedAgain(t *testing.T) {
	inSilentCase(t, func(c *silentCase) {
		require.True(t, c.silence.release(c.d.ctx), "it was never armed")
		require.False(t, c.beat(1))
		c.passUnheard(3 * time.Second)
		synctest.Wait()
		require.Equal(t, silence.Listening, c.silence.judge.Phase())
		require.EqualValues(t, 1, c.silence.arming(), "a goodbye is owed to the member that has armed it")
	})
}

// A removal without an answer may still be carried out after this process has lost its session. So it says no goodbye.
func TestUnknownRemovalIsNotReleased(t *testing.T) {
	for _, looks := range []bool{false, true} {
		inSilentCase(t, func(c *silentCase) {
			require.True(t, c.beat(1))
			c.silence.judge = removing(c.silence.judge, c.silence.now())
			c.session.EndLocally(session.ReasonExpired, errors.New("lost"))
			if looks {
				c.checkSilence()
			}
			require.False(t, c.silence.release(c.d.ctx))
		})
	}
}

// removing returns the judge after the removal was sent.
func removing(j silence.Judge, now time.Duration) silence.Judge {
	for ; j.Phase() == silence.Listening; now += heartbeat.CheckEvery {
		j = j.OnCheck(now)
	}
	j = j.OnAccused(now, 9, 0, false)
	for ; j.Phase() == silence.Waiting; now += heartbeat.CheckEvery {
		j = j.OnCheck(now)
	}
	return j
}

// While a request about a member is in progress no other case about it begins, and no goodbye is owed to it yet.
func TestCaseEndsAfterItsLastRequest(t *testing.T) {
	inSilentCase(t, func(c *silentCase) {
		require.True(t, c.beat(1))
		c.silence.busy = true
		ended := false
		var wg sync.WaitGroup
		wg.Go(func() {
			c.sayGoodbye()
			ended = true
		})
		<-time.After(2 * dropTimeout)
		synctest.Wait()
		require.False(t, ended)
		c.d.cancel()
		wg.Wait()
	})
}

// A goodbye that is owed is said once the member has armed this process, and only once.
func TestOwedGoodbyeIsSaid(t *testing.T) {
	inSilentCase(t, func(c *silentCase) {
		require.False(t, c.d.tryGoodbye(c.d.ctx, c.member, false), "nothing is heard: it may have armed")
		c.dialer.beats = 1
		require.True(t, c.d.tryGoodbye(c.d.ctx, c.member, false), "it runs and arms no watcher")
		require.False(t, c.d.tryGoodbye(c.d.ctx, c.member, true), "it arms watchers, and may learn late of this one")
		c.dialer.arms, c.dialer.beats = true, 0
		require.True(t, c.d.tryGoodbye(c.d.ctx, c.member, false))
		stopped, stop := context.WithCancel(c.d.ctx)
		stop()
		require.False(t, c.d.tryGoodbye(stopped, c.member, false), "the member is watched again, by an older stream perhaps")
	})
}

// A member that may have armed this process is owed a goodbye, until one is received on a watch that has armed it.
func TestMemberThatMayHaveArmedIsOwedAGoodbye(t *testing.T) {
	inSilentCase(t, func(c *silentCase) {
		defer c.runMirror()()
		over, end := context.WithCancel(c.d.ctx)
		end()
		watchAndClose := func(arms bool, closing context.Context) bool {
			require.Equal(t, suspicion.Opened, c.openWatch(c.d.ctx))
			if arms {
				c.beat(c.silence.arming() + 1)
			}
			c.closeWatch(closing)
			return c.mayBeArmed
		}
		require.False(t, watchAndClose(false, c.d.ctx))
		require.False(t, watchAndClose(true, c.d.ctx))
		require.True(t, watchAndClose(false, over), "a heartbeat that arms may have been lost")
		require.True(t, watchAndClose(false, c.d.ctx), "the one before may have been armed")
		require.False(t, watchAndClose(true, c.d.ctx))

		ended := make(chan struct{})
		close(ended)
		for _, o := range []*owedGoodbye{
			{member: c.member, arming: 9, said: true},
			{member: &state.Member{Record: state.Record{InstanceID: "another"}}, arming: 9},
			{member: c.member, arming: 9},
		} {
			o.stop, o.ended = func() {}, ended
			c.d.owed["a:1"] = o
			c.d.stopOwedGoodbye(c.watchedMember)
			require.Equal(t, o.member == c.member && !o.said, c.mayBeArmed)
			require.Equal(t, c.mayBeArmed, c.silence.arming() == 9)
		}
	})
}
