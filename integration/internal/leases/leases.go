// Package leases looks for leases of etcd's that are gone while its leader still counted on them:
// a leader of etcd that was deposed while it stood still takes them for run out by its own clock,
// and has them revoked, though its successor had renewed them (etcd #15247).
//
//	w := leases.Watch(leases.Config{Client: client, Prefix: "/it", Leader: leader, Owner: owner})
//	marks := w.End()    // one for each lease, for history.Check
//
// # What is not promised
//
// That the lease was etcd's to revoke: who lost a session, or closes it, revokes its lease itself.
// A mark excuses an overlap only if who had the lease went on claiming something, and who does
// that has not revoked it. Where others revoke leases as well, see Config.Counts.
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
	// every is the time between two looks.
	every = 200 * time.Millisecond
	// patience bounds one look.
	patience = time.Second
	// slack is by how much etcd's own count may be off: it says whole seconds.
	slack = 500 * time.Millisecond
)

// Config is what a watcher looks at. All fields are required, except Counts and Found. The
// functions are called from one goroutine.
type Config struct {
	// Client reaches members to which nothing is done, and those alone.
	Client *clientv3.Client
	// Prefix is where all keys lie whose leases count.
	Prefix string
	// Leader is who leads etcd by now, in which term of raft. It is not ok while that is one that
	// may have been deposed and not know it: what it counts is not believed.
	Leader func(ctx context.Context) (leader, term uint64, ok bool)
	// Owner says who has the lease of a key, by the name in the history; "" if the key does not show it.
	Owner func(key, value string) string
	// Counts reports whether a lease that is gone by now counts. Default: each does.
	Counts func() bool
	// Found is called with each mark. Default: nothing is.
	Found func(history.Mark)
}

// Watcher looks at the leases until End.
type Watcher struct {
	cfg    Config
	cancel context.CancelFunc
	wg     sync.WaitGroup
	known  map[clientv3.LeaseID]counted // the goroutine's own

	mu    sync.Mutex
	of    map[clientv3.LeaseID]string // whose it is
	marks []history.Mark
}

// counted is until when etcd's leader counted on a lease.
type counted struct {
	seen  history.Instant // the lease was there
	until history.Instant // 0: not known
}

// Watch begins to look.
func Watch(cfg Config) *Watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{cfg: cfg, cancel: cancel, known: map[clientv3.LeaseID]counted{}, of: map[clientv3.LeaseID]string{}}
	w.wg.Go(func() { w.run(ctx) })
	return w
}

// Belongs says whose a lease is, where its keys do not.
func (w *Watcher) Belongs(id clientv3.LeaseID, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[id] = name
}

// End ends the watch and returns a mark, named history.RevokedByEtcd, for each lease that was
// gone too early. Ending it again is harmless.
func (w *Watcher) End() []history.Mark {
	w.cancel()
	w.wg.Wait()
	return w.marks
}

func (w *Watcher) run(ctx context.Context) {
	again := time.NewTicker(every)
	defer again.Stop()
	for ctx.Err() == nil {
		w.look(ctx)
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

// look compares the leases of now with those that were known.
func (w *Watcher) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
			w.Belongs(id, name)
		}
	}
	for id, c := range w.known {
		if !there[id] {
			delete(w.known, id)
			w.gone(id, c, now)
		}
	}
	for id := range there {
		c := w.known[id]
		c.seen = sent
		if until, ok := w.left(ctx, id); ok {
			c.until = until
		}
		w.known[id] = c
	}
}

// gone notes a lease that was there and is not any more.
func (w *Watcher) gone(id clientv3.LeaseID, c counted, now history.Instant) {
	left := c.until.Sub(now)
	if c.until == 0 || left <= slack || w.cfg.Counts != nil && !w.cfg.Counts() {
		return
	}
	w.mu.Lock()
	m := history.Mark{Process: "leases", ID: int64(id), Node: w.of[id], Name: history.RevokedByEtcd, From: c.seen, To: now,
		Text: fmt.Sprintf("lease %x, which etcd's leader counted on for %v more", int64(id), left.Round(time.Millisecond))}
	w.marks = append(w.marks, m)
	w.mu.Unlock()
	if m.Node != "" && w.cfg.Found != nil {
		w.cfg.Found(m)
	}
}

// left is until when etcd's leader counts on a lease, if it is one to believe and remained the
// leader while it was asked.
func (w *Watcher) left(ctx context.Context, id clientv3.LeaseID) (until history.Instant, ok bool) {
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
