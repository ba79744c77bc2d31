// Package eventlog implements a node's part in the cluster's event log. It derives events from the node's
// snapshots, logs them, and records them in etcd, once for all nodes.
//
//	mirror ── snapshots ──► DeriveEvents ──┬──► a line of the log
//	election, session ─────────────────────┴──► writer ──► etcd, if this node is the one that records
//
// Every node derives the same events with the same ids, so any of them may record them. An event that is
// recorded twice is stored once, because it is only ever created. The *recorder* records: the leader, or the
// member that plans in its place, or, without a leader, the oldest member. The other nodes keep their derived
// events for a while. A node that becomes the recorder records the events that its predecessor left out. Events
// that only one node knows (the loss of its session, the reason why its own term ended) are recorded by that
// node. If a former leader reports no reason, the recorder does so. Events of the program are written by the call that
// records them, in keys of their own range, so that they can be counted and kept to a share of the log. So are
// operators' requests of processors, which the node that has carried them out records in the background.
//
// # What is not promised
//
//   - An event may be missing from the log: see package event.
//   - The order of the log may differ from that of the events, because an event can be recorded late. List
//     sorts by time.
package eventlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Election provides the present leader, as far as this node may report it, and the end of its own last term.
// *leaderelection.LeaderElection implements it.
type Election interface {
	Leader() leaderelection.Leader
	LastEnd() *leaderelection.TermOverError
}

// Config configures a Log.
type Config struct {
	etcd.Process
	Mirror   *watchcache.Mirror
	Election Election
	// Valid reports whether this node's session is valid. It must not block.
	Valid func() bool
	// Off makes the node log events without recording them.
	Off bool
	// Max limits the number of events in etcd, and MaxAge their age.
	Max    int
	MaxAge time.Duration
}

// maxRecent limits the events that a node remembers, and those that it keeps because it may have to record
// them.
const maxRecent = 256

// Log is one node's part in the event log. All methods are safe for concurrent use.
type Log struct {
	cfg       Config
	sub       *watchcache.Subscription
	snapshots snapshotQueue
	writer    *writer
	program   *programWriter
	commands  *rate.Limiter // of operators' requests
	wake      wait.Signal

	mu        sync.Mutex
	recent    []event.Event
	lost      []lostSession
	failovers failoverCounter
}

// lostSession is a session that ended without being closed.
type lostSession struct {
	id     int64
	reason string
	at     time.Time
}

// New returns a log, which Run starts. It observes all snapshots of the mirror from now on, including those
// before Run: no other node may see the first nodes of a cluster join.
func New(cfg Config) *Log {
	cfg.Process = cfg.WithDefaults()
	l := &Log{cfg: cfg, wake: wait.NewSignal(), failovers: newFailoverCounter(),
		program: newProgramWriter(cfg), commands: rate.NewLimiter(rate.Every(recordInterval), recordBurst)}
	l.sub = cfg.Mirror.Subscribe(l.snapshots.enqueueChange)
	if !cfg.Off {
		l.writer = newWriter(cfg)
	}
	return l
}

// Run derives, logs and records events until ctx ends. changed signals that the election's answers may have
// changed.
func (l *Log) Run(ctx context.Context, changed <-chan struct{}) {
	defer l.sub.Close()
	var writing sync.WaitGroup
	defer writing.Wait()
	if l.writer != nil {
		writing.Go(func() { l.writer.run(ctx) })
	}
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	again.Stop()
	o := &observer{log: l}
	for {
		select {
		case <-l.sub.C:
		case <-changed:
		case <-l.wake:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if after := o.observe(time.Now()); after > 0 {
			again.Reset(after)
		}
	}
}

// RecordLastEvents records the events that no other node would record once this node is gone: those that only this node
// knows, and, if no other member stays, its own leaving. Call it before the node's key is deleted and while Run
// is running. It blocks until that is done or ctx ends.
func (l *Log) RecordLastEvents(ctx context.Context) {
	if l.writer == nil || ctx.Err() != nil {
		return
	}
	last := false
	if snap := l.cfg.Mirror.Snapshot(); snap != nil {
		var self *state.Member
		if self, last = leavesLast(snap, l.cfg.Address); last {
			l.writer.addPending(event.Event{ID: fmt.Sprintf("%s-%d", event.NodeLeft, self.Incarnation),
				Type: event.NodeLeft, Time: time.Now(), Node: l.cfg.Address, Revision: snap.Revision}, true, 0)
		}
	}
	l.writer.flushLast(ctx, last)
}

// leavesLast reports whether the member self stops while no other member stays. Several members may stop at the
// same time.
func leavesLast(s *state.Snapshot, self string) (m *state.Member, last bool) {
	for _, other := range s.RegisteredMembers() {
		switch {
		case other.Address == self:
			m = other
		case !other.Stopping && !other.ElectionOnly:
			return nil, false
		}
	}
	return m, m != nil
}

// ReportSessionLost records that this node's session with that lease was lost. The session was valid until then at
// most, because a process that stood still notices the loss later. ReportSessionLost does not block.
func (l *Log) ReportSessionLost(lease int64, until time.Time, lost *session.LostError) {
	l.mu.Lock()
	if len(l.lost) < maxRecent {
		l.lost = append(l.lost, lostSession{id: lease, reason: string(lost.Reason), at: earliestTime(time.Now(), until)})
	}
	l.mu.Unlock()
	l.wake.Send()
}

// RecentEvents returns a copy of the newest events that this node observed, oldest first, whether they are recorded
// or not. It does not block.
func (l *Log) RecentEvents() []event.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]event.Event(nil), l.recent...)
}

// Failovers returns the counts of the changes of leader that this node observed. It does not block.
func (l *Log) Failovers() Failovers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failovers.read()
}

// snapshotQueue queues the snapshots that the observer has not processed yet, in order. The zero value is ready
// to use.
type snapshotQueue struct {
	mu     sync.Mutex
	began  bool
	queued []*state.Snapshot
}

// enqueueChange queues a snapshot that may contain an event. It runs in the mirror's goroutine.
func (t *snapshotQueue) enqueueChange(before, now *state.Snapshot) bool {
	if !mayHoldEvents(before, now) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began {
		t.queued, t.began = append(t.queued, before), true
	}
	if len(t.queued) == maxRecent { // skipped snapshots appear as one change
		t.queued = t.queued[:maxRecent-1]
	}
	t.queued = append(t.queued, now)
	return true
}

// takeAll returns the queued snapshots, the newest last. It asks for the newest one while no other can be queued.
func (t *snapshotQueue) takeAll(newest func() *state.Snapshot) []*state.Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.queued
	t.queued, t.began = nil, true
	if s := newest(); len(taken) == 0 || taken[len(taken)-1] != s {
		taken = append(taken, s)
	}
	return taken
}
