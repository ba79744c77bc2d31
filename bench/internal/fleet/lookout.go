package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/wait"
)

// Lookout is one bare watch of a prefix. It records etcd's events and the times at which a client without other
// work receives them.
type Lookout struct {
	client *clientv3.Client
	ctx    context.Context // the watch's; progress requests must use the same
	cancel context.CancelFunc
	wg     sync.WaitGroup
	news   wait.Signal // has a capacity of one signal

	mu      sync.Mutex
	seen    []Sighting
	reached int64 // all events up to this revision were reported
	broken  error
}

// Sighting is one event and the time at which it was received.
type Sighting struct {
	*clientv3.Event
	At time.Time
}

// Watch opens the watch. Close ends it.
func Watch(ctx context.Context, client *clientv3.Client, prefix string) (*Lookout, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	l := &Lookout{client: client, ctx: ctx, cancel: cancel, news: wait.NewSignal()}
	events := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if first, ok := <-events; !ok || first.Err() != nil {
		cancel()
		return nil, fmt.Errorf("open a watch of %s: %w", prefix, first.Err())
	}
	l.wg.Go(func() {
		for resp := range events {
			l.saw(resp, time.Now())
		}
	})
	return l, nil
}

func (l *Lookout) saw(resp clientv3.WatchResponse, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := resp.Err(); err != nil {
		l.broken = err
	}
	l.reached = max(l.reached, resp.Header.Revision)
	for _, ev := range resp.Events {
		l.seen = append(l.seen, Sighting{Event: ev, At: at})
	}
	l.news.Send()
}

// Forget discards the events recorded so far.
func (l *Lookout) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = nil
}

// Seen returns the events since Forget. The watch may lag, so Seen first waits until it has reached etcd's
// current revision.
func (l *Lookout) Seen(ctx context.Context) ([]Sighting, error) {
	resp, err := l.client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("ask for the present revision: %w", err)
	}
	tick := time.NewTicker(looking)
	defer tick.Stop()
	for {
		l.mu.Lock()
		seen, reached, broken := slices.Clone(l.seen), l.reached, l.broken
		l.mu.Unlock()
		switch {
		case broken != nil:
			return nil, fmt.Errorf("a bare watch: %w", broken)
		case reached >= resp.Header.Revision:
			return seen, nil
		}
		if err := l.client.RequestProgress(l.ctx); err != nil {
			return nil, fmt.Errorf("ask a bare watch how far it is: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("a bare watch is at revision %d and not at %d: %w", reached, resp.Header.Revision, ctx.Err())
		}
	}
}

// Await blocks until there is an event since Forget for which match returns true.
func (l *Lookout) Await(ctx context.Context, match func(*clientv3.Event) bool) (Sighting, error) {
	for {
		l.mu.Lock()
		i := slices.IndexFunc(l.seen, func(s Sighting) bool { return match(s.Event) })
		var found Sighting
		if i >= 0 {
			found = l.seen[i]
		}
		broken := l.broken
		l.mu.Unlock()
		switch {
		case broken != nil:
			return Sighting{}, fmt.Errorf("a bare watch: %w", broken)
		case i >= 0:
			return found, nil
		}
		select {
		case <-l.news:
		case <-ctx.Done():
			return Sighting{}, ctx.Err()
		}
	}
}

// Deleted matches the deletion of key.
func Deleted(key string) func(*clientv3.Event) bool {
	return func(ev *clientv3.Event) bool { return ev.Type == clientv3.EventTypeDelete && string(ev.Kv.Key) == key }
}

// Close ends the watch and waits for its goroutine.
func (l *Lookout) Close() {
	l.cancel()
	l.wg.Wait()
}
