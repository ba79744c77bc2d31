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
	// stopTimeout limits how long nodes may take to leave before they are killed. The steps of a node's own
	// stop have limits that add up to less.
	stopTimeout = 10 * time.Second
	// redrawInterval is the interval at which the ages in the table are updated.
	redrawInterval = time.Second
)

// eventLoop owns all state that changes. Only run's goroutine accesses its fields.
type eventLoop struct {
	cfg            Config
	startedAt      time.Time
	endpoint       string
	latestSnapshot func() *state.Snapshot
	screen         *screen
	logs           func(string)

	starter *child.Starter
	waiters sync.WaitGroup // one per process
	slots   []*nodeSlot
	exits   chan processExit
	err     error // ends run if set

	appliedSnapshot *state.Snapshot
	ledSince        time.Time // when the current leader was first seen
	assignedSince   time.Time // when the current shard map was first seen; zero once all shards are served
	nextKill        time.Time // zero until there is a leader
	pendingKill     *leaderKill
	samples         []time.Duration
	kills           int
	foreignToken    int64 // token of the last leader reported as not started here

	stopping   bool
	killAt     time.Time // set while stopping
	firstFound bool
}

// leaderKill is the kill of a leader that has no successor yet.
type leaderKill struct {
	token int64
	at    time.Time
}

func newEventLoop(cfg Config, begun time.Time, endpoint string, newest func() *state.Snapshot, screen *screen,
	logs func(string)) (*eventLoop, error) {
	l := &eventLoop{cfg: cfg, startedAt: begun, endpoint: endpoint, latestSnapshot: newest, screen: screen, logs: logs,
		exits: make(chan processExit, cfg.Nodes)} // a slot has one process, so sending never blocks
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
func (l *eventLoop) run(ctx context.Context, changed <-chan struct{}, server *embedetcd.Server) error {
	l.starter = child.NewStarter()
	defer l.starter.Close()
	defer l.waiters.Wait()
	for _, c := range l.slots {
		l.startProcess(c)
	}
	wake := time.NewTimer(0)
	defer wake.Stop()
	end, hurry, etcdDone, broken := ctx.Done(), l.cfg.Hurry, server.Done(), l.screen.broken
	for {
		now := time.Now()
		l.runDue(now)
		if l.stopping && l.countRunning() == 0 {
			return l.err
		}
		l.drawTable(now)
		wake.Reset(l.untilNextDue(now))
		select {
		case <-changed:
			l.applySnapshot(l.latestSnapshot(), time.Now())
		case e := <-l.exits:
			l.handleExit(e, time.Now())
		case <-wake.C:
		case <-end:
			end = nil
			l.stopNodes("stopping")
		case <-broken:
			broken = nil
			l.stopNodes("") // no process reads the output
		case <-hurry:
			hurry = nil
			l.stopNodes("stopping")
			l.printEvent("in a hurry: killing what still runs")
			l.killAll()
		case <-etcdDone:
			etcdDone = nil
			l.fail(server.Err())
		}
	}
}

// printEvent prints one event line that begins with the time since the start.
func (l *eventLoop) printEvent(format string, args ...any) {
	l.printStyled(plainStyle, format, args...)
}

// printStyled prints an event line in a style, if the output has colors.
func (l *eventLoop) printStyled(how style, format string, args ...any) {
	line := fmt.Sprintf("%8.3fs  ", time.Since(l.startedAt).Seconds()) + fmt.Sprintf(format, args...)
	if l.cfg.Terminal == nil {
		l.screen.printLines(line)
		return
	}
	columns, _ := l.cfg.Terminal()
	lines := wrapLine(line, columns, len("   1.234s  "))
	if l.cfg.Color {
		for i := range lines {
			lines[i] = how.paint(lines[i])
		}
	}
	l.screen.printLines(lines...)
}

// runDue performs the actions that are due now.
func (l *eventLoop) runDue(now time.Time) {
	if l.stopping {
		if now.After(l.killAt) && l.countRunning() > 0 {
			l.printEvent("killing what has not stopped within %v", stopTimeout)
			l.killAll()
			l.killAt = now.Add(stopTimeout)
		}
		return
	}
	if l.cfg.For > 0 && now.Sub(l.startedAt) >= l.cfg.For {
		l.stopNodes(fmt.Sprintf("%v are over, stopping", l.cfg.For))
		return
	}
	for _, c := range l.slots {
		if c.process == nil && !c.restartAt.After(now) {
			l.startProcess(c)
		}
	}
	if !l.nextKill.IsZero() && !now.Before(l.nextKill) {
		l.killLeader()
	}
}

// untilNextDue returns the time until runDue must run again.
func (l *eventLoop) untilNextDue(now time.Time) time.Duration {
	next := now.Add(time.Hour)
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(next) {
			next = t
		}
	}
	if l.cfg.Terminal != nil {
		sooner(now.Add(redrawInterval))
	}
	if l.stopping {
		sooner(l.killAt)
	} else {
		if l.cfg.For > 0 {
			sooner(l.startedAt.Add(l.cfg.For))
		}
		sooner(l.nextKill)
		for _, c := range l.slots {
			if c.process == nil {
				sooner(c.restartAt)
			}
		}
	}
	return next.Sub(now)
}

// applySnapshot applies a snapshot and prints the events it brings.
func (l *eventLoop) applySnapshot(s *state.Snapshot, now time.Time) {
	for _, h := range diffSnapshots(l.appliedSnapshot, s) {
		if h.kind == leaderElected || h.kind == leaderHandedOver {
			l.ledSince = now
			switch {
			case !l.firstFound:
				l.firstFound = true
				h.elapsed = fmt.Sprintf("the first leader, %s after the start", formatDuration(now.Sub(l.startedAt)))
				if l.cfg.KillEvery > 0 {
					l.nextKill = now.Add(l.cfg.KillEvery)
				}
			case l.pendingKill != nil:
				took := now.Sub(l.pendingKill.at)
				l.samples, l.pendingKill = append(l.samples, took), nil
				h.elapsed = formatDuration(took) + " after the kill"
			}
		}
		if h.kind == shardsAssigned && l.assignedSince.IsZero() {
			l.assignedSince = now
		}
		if h.kind == shardsServed && !l.assignedSince.IsZero() {
			if took := now.Sub(l.assignedSince); took > 0 {
				h.elapsed = formatDuration(took) + " later"
			}
			l.assignedSince = time.Time{}
		}
		l.printStyled(styleOf(h.kind), "%s", h.describe())
	}
	l.appliedSnapshot = s
	for _, c := range l.slots {
		if c.registration(s) != nil {
			c.registeredOnce, c.process.joined = true, true
		}
	}
}

// stopNodes asks every node to leave. Run ends when they have left.
func (l *eventLoop) stopNodes(why string) {
	if l.stopping {
		return
	}
	if why != "" {
		l.printEvent("%s", why)
	}
	l.stopping, l.killAt = true, time.Now().Add(stopTimeout)
	l.pendingKill = nil // the next leader follows the stop, not the kill
	for _, c := range l.slots {
		if c.process != nil {
			c.process.signal(syscall.SIGTERM)
		}
	}
}

// fail stops the loop with an error that Run returns.
func (l *eventLoop) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	l.stopNodes("stopping: " + err.Error())
}

// drawTable shows the table as of now.
func (l *eventLoop) drawTable(now time.Time) {
	if l.cfg.Terminal == nil {
		return
	}
	v := tableView{endpoint: l.endpoint, uptime: now.Sub(l.startedAt), kills: l.kills, killing: l.cfg.KillEvery > 0,
		color: l.cfg.Color}
	if l.appliedSnapshot != nil {
		v.leader = l.appliedSnapshot.Leader().Address
		v.ledFor = now.Sub(l.ledSince)
		if shards, err := shardview.New(l.appliedSnapshot); err == nil {
			v.served, v.shards = shards.MayServe(), shards.Count
		}
	}
	if n := len(l.samples); n > 0 {
		v.lastFailover = l.samples[n-1]
	}
	var slots []slotState
	for _, c := range l.slots {
		at := slotState{address: c.address, http: c.http, deadIncarnation: c.deadIncarnation}
		if c.process != nil {
			at.pid, at.age, at.joined = c.process.pid(), now.Sub(c.process.started), c.process.joined
			if v.dashboard == "" {
				v.dashboard = dashboardURL(c.http)
			}
		}
		slots = append(slots, at)
	}
	v.rows = tableRows(l.appliedSnapshot, slots)
	columns, lines := l.cfg.Terminal()
	l.screen.showBlock(v.render(columns, lines))
}
