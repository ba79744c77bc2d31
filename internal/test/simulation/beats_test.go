package simulation

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/crash/heartbeat"
)

// fakeArmer arms the watcher of one stream with a heartbeat every 100 ms.
type fakeArmer struct {
	w        *world
	stream   uint64
	sent     uint64
	stamps   map[uint64]time.Duration // by number: when it was asked for
	received map[uint64]time.Duration // by number: when its acknowledgement was received
	goodbye  time.Duration            // when the goodbye was received; 0 before
	newest   uint64                   // acknowledged
}

func (f *fakeArmer) NextBeat(stream uint64, _ string) (heartbeat.Beat, time.Duration) {
	f.w.Mu.Lock()
	defer f.w.Mu.Unlock()
	if stream != f.stream {
		return heartbeat.Beat{}, heartbeat.SendEvery
	}
	f.sent++
	f.stamps[f.sent] = f.w.Now()
	return heartbeat.Beat{Number: f.sent, Arming: stream}, 100 * time.Millisecond
}

func (f *fakeArmer) Acknowledged(_, number uint64) {
	f.w.Mu.Lock()
	defer f.w.Mu.Unlock()
	if number != f.newest+1 {
		f.w.Fail("heartbeat %d was acknowledged after %d", number, f.newest)
	}
	f.newest, f.received[number] = number, f.w.Now()
}

func (*fakeArmer) RemovalReported(int64) {}

func (f *fakeArmer) SaidGoodbye(uint64) {
	f.w.Mu.Lock()
	defer f.w.Mu.Unlock()
	f.goodbye = f.w.Now()
}

// beatWorld has a watcher a that acknowledges what it hears from b.
type beatWorld struct {
	*world
	a, b   *host
	armer  *fakeArmer
	stream *watchStream
	heard  map[uint64]time.Duration
	newest uint64
}

// runBeats runs steps once the stream is open, which is at 3 s.
func runBeats(t *testing.T, seed uint64, steps func(x *beatWorld)) {
	t.Helper()
	runScript(t, script{hosts: 2, ttl: 10 * time.Second, seed: seed, lasts: 30 * time.Second, steps: func(w *world) {
		x := &beatWorld{world: w, a: w.hosts[0], b: w.hosts[1], heard: map[uint64]time.Duration{}}
		x.armer = &fakeArmer{w: w, stamps: map[uint64]time.Duration{}, received: map[uint64]time.Duration{}}
		w.at(3*time.Second, func() {
			p := x.a.process
			x.armer.stream = x.b.process.node.served + 1
			x.b.process.armer = x.armer
			w.wg.Go(func() {
				s, err := p.node.Watch(p.ctx, x.b.address, "", func(b heartbeat.Beat) bool {
					w.Mu.Lock()
					defer w.Mu.Unlock()
					if b.Number != x.newest+1 {
						w.Fail("heartbeat %d was heard after %d", b.Number, x.newest)
					}
					x.newest, x.heard[b.Number] = b.Number, w.Now()
					return true
				})
				w.Mu.Lock()
				defer w.Mu.Unlock()
				w.expect(err == nil, "%v", err)
				x.stream = s.(*watchStream)
				steps(x)
			})
		})
	}}, nil)
}

// within reports whether d is between two durations.
func within(d, least, most time.Duration) bool { return d >= least && d <= most }

func TestBeatsTravelBothWays(t *testing.T) {
	runBeats(t, 1, func(x *beatWorld) {
		x.at(10*time.Second, func() {
			x.expect(within(time.Duration(x.armer.newest), 68, 71), "%d acknowledged", x.armer.newest)
			for n, at := range x.armer.received {
				x.expect(within(x.heard[n]-x.armer.stamps[n], minHop, maxHop), "%d heard after %v", n, x.heard[n]-x.armer.stamps[n])
				x.expect(within(at-x.heard[n], minHop, maxHop), "%d acknowledged after %v", n, at-x.heard[n])
			}
		})
	})
}

func TestBeatsWaitForTheNetwork(t *testing.T) {
	runBeats(t, 2, func(x *beatWorld) {
		var heardBefore, acknowledged uint64
		x.at(4*time.Second, func() { x.cutWay(x.b, x.a, time.Second) })
		x.at(4900*time.Millisecond, func() { heardBefore = x.newest })
		x.at(6*time.Second, func() {
			x.expect(within(x.heard[heardBefore+1], 5*time.Second, 5600*time.Millisecond), "%v", x.heard[heardBefore+1])
			x.expect(within(x.heard[heardBefore]-x.armer.stamps[heardBefore], 0, maxHop), "late before the cut")
			x.cutWay(x.a, x.b, time.Second)
		})
		x.at(6900*time.Millisecond, func() {
			acknowledged = x.armer.newest
			x.expect(x.newest >= acknowledged+8, "%d heard and %d acknowledged in a cut of one way", x.newest, acknowledged)
		})
		x.at(8*time.Second, func() {
			late := x.armer.received[acknowledged+1]
			x.expect(within(late, 7*time.Second, 7600*time.Millisecond), "acknowledged at %v", late)
			x.expect(x.armer.newest+2 >= x.newest, "%d heard and %d acknowledged", x.newest, x.armer.newest)
		})
	})
}

func TestBeatsAreBounded(t *testing.T) {
	runBeats(t, 3, func(x *beatWorld) {
		x.at(4*time.Second, func() { x.cutWay(x.a, x.b, 8*time.Second) })
		x.at(11*time.Second, func() {
			x.expect(x.armer.sent <= x.armer.newest+maxUnheard+2, "%d sent and %d acknowledged", x.armer.sent, x.armer.newest)
		})
		x.at(20*time.Second, func() { x.expect(x.armer.newest > 50, "%d acknowledged", x.armer.newest) })
	})
}

func TestBeatsWaitForTheWatcher(t *testing.T) {
	runBeats(t, 4, func(x *beatWorld) {
		var before uint64
		x.at(4*time.Second, func() { x.pauseFor(x.a, time.Second) })
		x.at(4900*time.Millisecond, func() { before = x.newest })
		x.at(5500*time.Millisecond, func() {
			x.expect(x.heard[before+1] == 5*time.Second && x.heard[before+9] == 5*time.Second, "not all at once")
			x.pauseFor(x.b, time.Second)
			before = x.armer.sent
		})
		x.at(6400*time.Millisecond, func() { x.expect(x.armer.sent == before, "a process that stands still sends") })
		x.at(6510*time.Millisecond, func() { x.expect(x.armer.sent > before, "it sends nothing when it continues") })
	})
}

func TestGoodbyes(t *testing.T) {
	for _, c := range []struct {
		name     string
		seed     uint64
		cut      func(x *beatWorld)
		received bool
		at       [2]time.Duration // when the watched process gets the goodbye
	}{
		{"well", 1, func(*beatWorld) {}, true, [2]time.Duration{4 * time.Second, 4010 * time.Millisecond}},
		{"late", 2, func(x *beatWorld) { x.cutWay(x.a, x.b, time.Second) }, true,
			[2]time.Duration{5 * time.Second, 5600 * time.Millisecond}},
		{"lost", 3, func(x *beatWorld) { x.cutWay(x.a, x.b, 10*time.Second) }, false, [2]time.Duration{}},
		{"confirmation lost", 4, func(x *beatWorld) { x.cutWay(x.b, x.a, 10*time.Second) }, false,
			[2]time.Duration{4 * time.Second, 4010 * time.Millisecond}},
		{"stands still", 5, func(x *beatWorld) { x.pauseFor(x.b, 500*time.Millisecond) }, true,
			[2]time.Duration{4500 * time.Millisecond, 4510 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			closed, received := time.Duration(0), false
			runBeats(t, c.seed, func(x *beatWorld) {
				x.at(4*time.Second, func() {
					c.cut(x)
					x.wg.Go(func() {
						ctx, cancel := context.WithTimeout(x.a.process.ctx, 2*time.Second)
						defer cancel()
						received = x.stream.Close(ctx)
						closed = x.Now()
					})
				})
				x.at(9*time.Second, func() {
					x.expect(within(x.armer.goodbye, c.at[0], c.at[1]), "goodbye at %v", x.armer.goodbye)
					x.expect(closed >= max(c.at[0], 4*time.Second), "closed at %v", closed)
				})
			})
			require.Equal(t, c.received, received)
		})
	}
}
