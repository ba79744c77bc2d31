package target

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
)

// witness follows a cluster's keys as a bare client. It records which processes were killed; the removal of any
// other process's keys is a fault.
type witness struct {
	keys   state.Keys
	log    func(format string, args ...any)
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	there   map[string]*life // by address
	byLease map[int64]*life
	changed chan struct{} // closed and replaced
	broken  error
	seen    injuries
}

// injuries counts the events that affected processes which were not killed.
type injuries struct{ accused, removed, unqueued int }

// life is one incarnation of a member.
type life struct {
	address     string
	incarnation int64
	lease       int64
	killed      bool
	// When the bare watch showed its first accusation, and its removal.
	accused, removed time.Time
}

// newWitness watches from now on. The caller must call close.
func newWitness(ctx context.Context, client *clientv3.Client, prefix string, log func(string,
	...any)) (*witness, error) {
	keys, err := state.NewKeys(prefix)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &witness{keys: keys, log: log, cancel: cancel, there: map[string]*life{}, byLease: map[int64]*life{},
		changed: make(chan struct{})}
	ch := client.Watch(clientv3.WithRequireLeader(ctx), keys.RangeStart(), clientv3.WithRange(keys.RangeEnd()),
		clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
	if first, ok := <-ch; !ok || first.Err() != nil {
		cancel()
		return nil, fmt.Errorf("watch the cluster's keys: %w", first.Err())
	}
	w.wg.Go(func() { w.follow(ch) })
	return w, nil
}

func (w *witness) close() {
	w.cancel()
	w.wg.Wait()
}

func (w *witness) follow(ch clientv3.WatchChan) {
	for resp := range ch {
		now := time.Now()
		w.mu.Lock()
		if err := resp.Err(); err != nil {
			w.broken = err
		}
		for _, e := range resp.Events {
			w.event(e, now)
		}
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
	}
}

func (w *witness) event(e *clientv3.Event, now time.Time) {
	key := w.keys.Parse(string(e.Kv.Key))
	gone := e.Type == clientv3.EventTypeDelete
	switch {
	case key.Kind == state.KindNode && !gone:
		l := w.there[key.Address]
		if l == nil || l.incarnation != e.Kv.CreateRevision {
			l = &life{address: key.Address, incarnation: e.Kv.CreateRevision}
			w.there[key.Address] = l
		}
		record, err := state.DecodeRecord(e.Kv.Value)
		if err != nil {
			w.broken = err
		}
		l.lease = record.Lease
		w.byLease[l.lease] = l
	case key.Kind == state.KindNode:
		if l := w.there[key.Address]; l != nil && l.removed.IsZero() {
			l.removed = now
			w.hurt(l, &w.seen.removed, "removed")
		}
	case key.Kind == state.KindAccusation && !gone:
		record, err := state.DecodeAccusation(e.Kv.Value)
		if err != nil {
			w.broken = err
		}
		if l := w.there[key.Address]; l != nil && l.incarnation == record.Incarnation {
			if l.accused.IsZero() {
				l.accused = now
			}
			w.hurt(l, &w.seen.accused, "accused ("+record.Evidence+")")
		}
	case key.Kind == state.KindCandidate && gone:
		if l := w.byLease[key.Lease]; l != nil {
			w.hurt(l, &w.seen.unqueued, "taken out of the queue")
		}
	}
}

// hurt counts an event if it affects a process that was not killed.
func (w *witness) hurt(l *life, count *int, what string) {
	if !l.killed {
		*count++
		w.log("%s (incarnation %d) lives and was %s", l.address, l.incarnation, what)
	}
}

// killing records that the process at address is about to be killed.
func (w *witness) killing(address string) (*life, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.there[address]
	if l == nil || !l.removed.IsZero() {
		return nil, fmt.Errorf("%s is to be killed and is not registered", address)
	}
	l.killed = true
	return l, w.broken
}

// removal waits until l's keys are gone. It returns the times at which the watch showed that it was accused,
// zero if it was not, and removed.
func (w *witness) removal(ctx context.Context, l *life) (accused, removed time.Time, err error) {
	for {
		w.mu.Lock()
		accused, removed, err = l.accused, l.removed, w.broken
		changed := w.changed
		w.mu.Unlock()
		if err != nil || !removed.IsZero() {
			return accused, removed, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return accused, removed, fmt.Errorf("wait until %s is removed: %w", l.address, ctx.Err())
		}
	}
}

// living returns the counts so far of events that affected processes which were not killed.
func (w *witness) living() injuries {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}
