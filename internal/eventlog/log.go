// Package eventlog is a node's part in the cluster's event log: what the node sees happen is derived from its
// snapshots, logged, and recorded in etcd, once for all nodes.
//
//	mirror ── snapshots ──► Derive ──┬──► a line of the log
//	election, session ───────────────┴──► writer ──► etcd, if this node is the one that records
//
// Every node derives the same events, with the same ids, so it does not matter which one records them, and twice is
// once: an event is only ever created. The *recorder* records: the leader, or the member that plans in its place, or
// where nobody leads the oldest member. The others keep what they derived for a while; the one that becomes the
// recorder makes up for what its predecessor left out. What only one node knows (that its session was lost, why its
// own term ended) that node records itself; the recorder speaks for a leader that says nothing.
//
// # What is not promised
//
//   - That every event is recorded: see package event.
//   - That the order of the log is that of the events: an event can be recorded late. List orders them by their times.
package eventlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

// Election is what a log asks about the leader, as far as the node may say; *leaderelection.LeaderElection is one.
type Election interface {
	Leader() election.Leader
	LastEnd() *election.TermOverError
}

// Config is what a log needs.
type Config struct {
	Client   *clientv3.Client
	Keys     state.Keys
	Mirror   *watchcache.Mirror
	Election Election
	// Address is this node's.
	Address string
	// Valid reports whether this node's session is valid. It must not block.
	Valid func() bool
	// Off logs, and records nothing.
	Off bool
	// Max is how many events are kept in etcd, and MaxAge for how long.
	Max    int
	MaxAge time.Duration
	// RequestTimeout bounds one request to etcd.
	RequestTimeout time.Duration
	Logger         hclog.Logger
}

// maxRecent is how many events a node remembers, and how many it keeps that it may have to record.
const maxRecent = 256

// Log is one node's part in the event log. All methods are safe for concurrent use.
type Log struct {
	cfg    Config
	sub    *watchcache.Subscription
	seen   transitions
	writer *writer
	look   chan struct{}

	mu     sync.Mutex
	recent []event.Event
	lost   []lostSession
	took   Failovers
}

// lostSession is a session that ended without being closed.
type lostSession struct {
	id     int64
	reason string
	at     time.Time
}

// New makes a log; Run makes it live. It sees all that the mirror shows from now on, so that what happens before Run
// begins is not missed: nobody else may see the first nodes of a cluster come.
func New(cfg Config) *Log {
	l := &Log{cfg: cfg, look: make(chan struct{}, 1), took: newFailovers()}
	l.sub = cfg.Mirror.Subscribe(l.seen.concerns)
	if !cfg.Off {
		l.writer = newWriter(cfg)
	}
	return l
}

// Run derives, logs and records events until ctx ends. changed signals that the election's answers may be others.
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
		case <-l.look:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if after := o.observe(time.Now()); after > 0 {
			again.Reset(after)
		}
	}
}

// Leave records what nobody else would when this node is gone: what it alone knows, and if no other member stays, that
// it left. It is called before the node's key is deleted, while Run runs, and blocks until that is done or ctx
// ends.
func (l *Log) Leave(ctx context.Context) {
	if l.writer == nil || ctx.Err() != nil {
		return
	}
	last := false
	if snap := l.cfg.Mirror.Snapshot(); snap != nil {
		var self *state.Member
		if self, last = leavesLast(snap, l.cfg.Address); last {
			l.writer.add(event.Event{ID: fmt.Sprintf("%s-%d", event.NodeLeft, self.Incarnation),
				Type: event.NodeLeft, Time: time.Now(), Node: l.cfg.Address, Revision: snap.Revision}, true, 0)
		}
	}
	l.writer.leave(ctx, last)
}

// leavesLast reports whether the member self stops, and no other one stays: several may stop at once.
func leavesLast(s *state.Snapshot, self string) (m *state.Member, last bool) {
	for _, other := range s.Registered() {
		switch {
		case other.Address == self:
			m = other
		case !other.Stopping:
			return nil, false
		}
	}
	return m, m != nil
}

// SessionLost notes that this node's session with that lease was lost, which counted until then at most: a process that
// stood still notices that later. It does not block.
func (l *Log) SessionLost(lease int64, until time.Time, lost *session.LostError) {
	l.mu.Lock()
	if len(l.lost) < maxRecent {
		l.lost = append(l.lost, lostSession{id: lease, reason: string(lost.Reason), at: earliest(time.Now(), until)})
	}
	l.mu.Unlock()
	signal(l.look)
}

// Recent are the newest events that this node saw, oldest first, whether they are recorded or not: a copy. It does
// not block.
func (l *Log) Recent() []event.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]event.Event(nil), l.recent...)
}

// Failovers are the changes of leader that this node saw. It does not block.
func (l *Log) Failovers() Failovers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.took.clone()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// transitions are the snapshots that the observer has not looked at, in order. The zero value is ready.
type transitions struct {
	mu    sync.Mutex
	began bool
	next  []*state.Snapshot
}

// concerns keeps a snapshot in which something happened. It runs in the mirror's goroutine.
func (t *transitions) concerns(before, now *state.Snapshot) bool {
	if !differs(before, now) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began {
		t.next, t.began = append(t.next, before), true
	}
	if len(t.next) == maxRecent { // what lies between is seen as one change
		t.next = t.next[:maxRecent-1]
	}
	t.next = append(t.next, now)
	return true
}

// take are those not looked at, the newest last, which is asked for when no other can come between.
func (t *transitions) take(newest func() *state.Snapshot) []*state.Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.next
	t.next, t.began = nil, true
	if s := newest(); len(taken) == 0 || taken[len(taken)-1] != s {
		taken = append(taken, s)
	}
	return taken
}
