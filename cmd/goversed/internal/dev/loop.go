package dev

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/child"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/sharding/shardview"
	"github.com/goverse/goverse/internal/state"
)

const (
	// stopPatience limits how long nodes may take to leave before they are killed. The steps of a node's own
	// stop have limits that add up to less.
	stopPatience = 10 * time.Second
	// redrawEvery is the interval at which the ages in the table are updated.
	redrawEvery = time.Second
)

// loop owns all state that changes. Only run's goroutine accesses its fields.
type loop struct {
	cfg      Config
	begun    time.Time
	endpoint string
	newest   func() *state.Snapshot
	screen   *screen
	logs     func(string)

	starter *child.Starter
	waiters sync.WaitGroup // one per process
	slots   []*nodeSlot
	exits   chan exit
	err     error // ends run if set

	seen     *state.Snapshot
	led      time.Time // when the current leader was first seen
	dealt    time.Time // when the current shard map was first seen; zero once all shards are served
	nextKill time.Time // zero until there is a leader
	pending  *kill
	samples  []time.Duration
	kills    int
	foreign  int64 // token of the last leader reported as not started here

	stopping   bool
	killAt     time.Time // set while stopping
	firstFound bool
}

// kill is the kill of a leader that has no successor yet.
type kill struct {
	token int64
	at    time.Time
}

func newLoop(cfg Config, begun time.Time, endpoint string, newest func() *state.Snapshot, screen *screen,
	logs func(string)) (*loop, error) {
	l := &loop{cfg: cfg, begun: begun, endpoint: endpoint, newest: newest, screen: screen, logs: logs,
		exits: make(chan exit, cfg.Nodes)} // a slot has one process, so sending never blocks
	addresses, err := port.Servers.Loopback(2 * cfg.Nodes)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Nodes {
		l.slots = append(l.slots, &nodeSlot{address: addresses[2*i], http: addresses[2*i+1]})
	}
	return l, nil
}

// run starts the nodes and returns when all of them have ended.
func (l *loop) run(ctx context.Context, changed <-chan struct{}, server *embedetcd.Server) error {
	l.starter = child.NewStarter()
	defer l.starter.Close()
	defer l.waiters.Wait()
	for _, c := range l.slots {
		l.start(c)
	}
	wake := time.NewTimer(0)
	defer wake.Stop()
	end, hurry, etcdDone, broken := ctx.Done(), l.cfg.Hurry, server.Done(), l.screen.broken
	for {
		now := time.Now()
		l.due(now)
		if l.stopping && l.running() == 0 {
			return l.err
		}
		l.draw(now)
		wake.Reset(l.untilNext(now))
		select {
		case <-changed:
			l.see(l.newest(), time.Now())
		case e := <-l.exits:
			l.exited(e, time.Now())
		case <-wake.C:
		case <-end:
			end = nil
			l.stop("stopping")
		case <-broken:
			broken = nil
			l.stop("") // no process reads the output
		case <-hurry:
			hurry = nil
			l.stop("stopping")
			l.say("in a hurry: killing what still runs")
			l.killAll()
		case <-etcdDone:
			etcdDone = nil
			l.fail(server.Err())
		}
	}
}

// say prints one event line that begins with the time since the start.
func (l *loop) say(format string, args ...any) {
	line := fmt.Sprintf("%8.3fs  ", time.Since(l.begun).Seconds()) + fmt.Sprintf(format, args...)
	if l.cfg.Terminal == nil {
		l.screen.say(line)
		return
	}
	columns, _ := l.cfg.Terminal()
	l.screen.say(wrap(line, columns, len("   1.234s  "))...)
}

// due performs the actions that are due now.
func (l *loop) due(now time.Time) {
	if l.stopping {
		if now.After(l.killAt) && l.running() > 0 {
			l.say("killing what has not stopped within %v", stopPatience)
			l.killAll()
			l.killAt = now.Add(stopPatience)
		}
		return
	}
	if l.cfg.For > 0 && now.Sub(l.begun) >= l.cfg.For {
		l.stop(fmt.Sprintf("%v are over, stopping", l.cfg.For))
		return
	}
	for _, c := range l.slots {
		if c.run == nil && !c.restart.After(now) {
			l.start(c)
		}
	}
	if !l.nextKill.IsZero() && !now.Before(l.nextKill) {
		l.killLeader()
	}
}

// untilNext returns the time until due must run again.
func (l *loop) untilNext(now time.Time) time.Duration {
	next := now.Add(time.Hour)
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	if l.cfg.Terminal != nil {
		sooner(now.Add(redrawEvery))
	}
	if l.stopping {
		sooner(l.killAt)
	} else {
		if l.cfg.For > 0 {
			sooner(l.begun.Add(l.cfg.For))
		}
		sooner(l.nextKill)
		for _, c := range l.slots {
			if c.run == nil {
				sooner(c.restart)
			}
		}
	}
	return next.Sub(now)
}

// see applies a snapshot and prints the events it brings.
func (l *loop) see(s *state.Snapshot, now time.Time) {
	for _, h := range differences(l.seen, s) {
		if h.what == leads || h.what == handedOver {
			l.led = now
			switch {
			case !l.firstFound:
				l.firstFound = true
				h.when = fmt.Sprintf("the first leader, %s after the start", short(now.Sub(l.begun)))
				if l.cfg.KillEvery > 0 {
					l.nextKill = now.Add(l.cfg.KillEvery)
				}
			case l.pending != nil:
				took := now.Sub(l.pending.at)
				l.samples, l.pending = append(l.samples, took), nil
				h.when = short(took) + " after the kill"
			}
		}
		if h.what == dealt && l.dealt.IsZero() {
			l.dealt = now
		}
		if h.what == served && !l.dealt.IsZero() {
			if took := now.Sub(l.dealt); took > 0 {
				h.when = short(took) + " later"
			}
			l.dealt = time.Time{}
		}
		l.say("%s", h.line())
	}
	l.seen = s
	for _, c := range l.slots {
		if c.member(s) != nil {
			c.proven, c.run.joined = true, true
		}
	}
}

// stop asks every node to leave. Run ends when they have left.
func (l *loop) stop(why string) {
	if l.stopping {
		return
	}
	if why != "" {
		l.say("%s", why)
	}
	l.stopping, l.killAt = true, time.Now().Add(stopPatience)
	l.pending = nil // the next leader follows the stop, not the kill
	for _, c := range l.slots {
		if c.run != nil {
			c.run.signal(syscall.SIGTERM)
		}
	}
}

// fail stops the loop with an error that Run returns.
func (l *loop) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	l.stop("stopping: " + err.Error())
}

// draw shows the table as of now.
func (l *loop) draw(now time.Time) {
	if l.cfg.Terminal == nil {
		return
	}
	v := view{endpoint: l.endpoint, up: now.Sub(l.begun), kills: l.kills, killing: l.cfg.KillEvery > 0}
	if l.seen != nil {
		v.leader = l.seen.Leader().Address
		v.ledFor = now.Sub(l.led)
		if shards, err := shardview.New(l.seen); err == nil {
			v.served, v.shards = shards.MayServe(), shards.Count
		}
	}
	if n := len(l.samples); n > 0 {
		v.last = l.samples[n-1]
	}
	var slots []slotState
	for _, c := range l.slots {
		at := slotState{address: c.address, http: c.http, gone: c.gone}
		if c.run != nil {
			at.pid, at.age, at.joined = c.run.pid(), now.Sub(c.run.started), c.run.joined
			if v.dashboard == "" {
				v.dashboard = dashboardAt(c.http)
			}
		}
		slots = append(slots, at)
	}
	v.rows = rows(l.seen, slots)
	columns, lines := l.cfg.Terminal()
	l.screen.show(v.render(columns, lines))
}
