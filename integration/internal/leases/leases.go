// Package leases detects leases that etcd removed while its leader still counted on them. A leader of etcd that
// was deposed while it was paused considers leases expired by its own clock and revokes them, although its
// successor had renewed them (etcd #15247).
//
//	w := leases.Watch(leases.Config{Client: client, Prefix: "/it", Leader: leader, Owner: owner})
//	marks := w.End()    // one for each lease, for history.Check
//
// # What is not promised
//
// A mark does not prove that etcd revoked the lease: a program that loses or closes its session revokes the
// lease itself. A mark excuses an overlap only if the owner of the lease continued to claim something, and such
// an owner has not revoked it. If others revoke leases as well, see Config.Counts.
package leases

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/test/history"
)

const (
	// checkInterval is the interval between two checks.
	checkInterval = 200 * time.Millisecond
	// checkTimeout limits one check.
	checkTimeout = time.Second
	// countError is the error of etcd's own count, which is in whole seconds.
	countError = 500 * time.Millisecond
)

// Config configures a Watcher. All fields except Counts and Found are required. The functions are called from
// one goroutine.
type Config struct {
	// Client must reach only members that are not affected by a fault.
	Client *clientv3.Client
	// Prefix selects the keys with the leases to watch.
	Prefix string
	// Leader returns etcd's current leader and raft term. It must report false while that leader may have been
	// deposed without knowing it, because its counts cannot be trusted.
	Leader func(ctx context.Context) (leader, term uint64, ok bool)
	// Owner returns the owner of a key's lease, by its name in the history, or "" if the key does not show it.
	Owner func(key, value string) string
	// Counts reports whether a lease that disappears now counts. If it is nil, every lease counts.
	Counts func() bool
	// Found, if it is not nil, is called with each mark.
	Found func(history.Mark)
}

// Watcher watches the leases until End.
type Watcher struct {
	cfg    Config
	cancel context.CancelFunc
	wg     sync.WaitGroup
	known  map[clientv3.LeaseID]trustedPeriod // used only by the goroutine

	mu     sync.Mutex
	owners map[clientv3.LeaseID]string // the owner of each lease
	marks  []history.Mark
}

// trustedPeriod is the time until which etcd's leader counted on a lease.
type trustedPeriod struct {
	seen  history.Instant // the lease existed then
	until history.Instant // 0 if unknown
}

// Watch starts a watcher.
func Watch(cfg Config) *Watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{cfg: cfg, cancel: cancel, known: map[clientv3.LeaseID]trustedPeriod{},
		owners: map[clientv3.LeaseID]string{}}
	w.wg.Go(func() { w.run(ctx) })
	return w
}

// SetOwner sets the owner of a lease with keys that do not show it.
func (w *Watcher) SetOwner(id clientv3.LeaseID, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners[id] = name
}

// End ends the watch and returns a mark, named history.RevokedByEtcd, for each lease that disappeared too
// early. Calling it again is harmless.
func (w *Watcher) End() []history.Mark {
	w.cancel()
	w.wg.Wait()
	return w.marks
}

func (w *Watcher) run(ctx context.Context) {
	again := time.NewTicker(checkInterval)
	defer again.Stop()
	for ctx.Err() == nil {
		w.checkLeases(ctx)
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// checkLeases compares the current leases with the known ones.
func (w *Watcher) checkLeases(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	sent := history.Now()
	resp, err := w.cfg.Client.Get(ctx, w.cfg.Prefix, clientv3.WithPrefix())
	if err != nil {
		return
	}
	now, there := history.Now(), map[clientv3.LeaseID]bool{}
	for _, kv := range resp.Kvs {
		if kv.Lease == 0 {
			continue
		}
		id := clientv3.LeaseID(kv.Lease)
		there[id] = true
		if name := w.cfg.Owner(string(kv.Key), string(kv.Value)); name != "" {
			w.SetOwner(id, name)
		}
	}
	for id, c := range w.known {
		if !there[id] {
			delete(w.known, id)
			w.recordEarlyEnd(id, c, now)
		}
	}
	for id := range there {
		c := w.known[id]
		c.seen = sent
		if until, ok := w.trustedUntil(ctx, id); ok {
			c.until = until
		}
		w.known[id] = c
	}
}

// recordEarlyEnd records a mark if the lease disappeared too early.
func (w *Watcher) recordEarlyEnd(id clientv3.LeaseID, c trustedPeriod, now history.Instant) {
	left := c.until.Sub(now)
	if c.until == 0 || left <= countError || w.cfg.Counts != nil && !w.cfg.Counts() {
		return
	}
	w.mu.Lock()
	m := history.Mark{Process: "leases", ID: int64(id), Node: w.owners[id], Name: history.RevokedByEtcd, From: c.seen,
		To:   now,
		Text: fmt.Sprintf("lease %x, which etcd's leader counted on for %v more", int64(id), left.Round(time.Millisecond))}
	w.marks = append(w.marks, m)
	w.mu.Unlock()
	if m.Node != "" && w.cfg.Found != nil {
		w.cfg.Found(m)
	}
}

// trustedUntil returns the time until which etcd's leader counts on a lease. It reports false if the leader cannot be
// trusted or changed during the request.
func (w *Watcher) trustedUntil(ctx context.Context, id clientv3.LeaseID) (until history.Instant, ok bool) {
	leader, term, ok := w.cfg.Leader(ctx)
	if !ok {
		return 0, false
	}
	at := history.Now()
	lease, err := w.cfg.Client.TimeToLive(ctx, id)
	if err != nil || lease.TTL < 0 {
		return 0, false
	}
	still, same, ok := w.cfg.Leader(ctx)
	return at.Add(time.Duration(lease.TTL) * time.Second), ok && still == leader && same == term
}
