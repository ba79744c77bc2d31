package target

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// watchers is the floor of every notification: bare clients that watch one prefix and only record the times at
// which events arrive. Each uses a watch stream of its own, as separate processes would.
type watchers struct {
	clients []*clientv3.Client
	prefix  string
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	n       int

	mu     sync.Mutex
	seen   int       // watchers that received the event of the current sample
	chosen int       // index of the measured watcher
	at     time.Time // when the measured watcher received it
	first  time.Time // when the first watcher received it
	last   time.Time // when the last watcher received it
	all    chan struct{}
	broken error
}

// watch opens n watches over the given connections.
func watch(ctx context.Context, clients []*clientv3.Client, prefix string, n int) (*watchers, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watchers{clients: clients, prefix: prefix, cancel: cancel, n: n}
	for i := range n {
		// The client combines watches with the same metadata on one stream.
		sctx := metadata.AppendToOutgoingContext(ctx, "bench-watcher", strconv.Itoa(i))
		ch := clients[i%len(clients)].Watch(clientv3.WithRequireLeader(sctx), prefix,
			clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		if first, ok := <-ch; !ok || first.Err() != nil {
			w.close()
			return nil, fmt.Errorf("open watch %d: %w", i, first.Err())
		}
		w.wg.Go(func() { w.follow(i, ch) })
	}
	return w, nil
}

func (w *watchers) follow(i int, ch clientv3.WatchChan) {
	for resp := range ch {
		now := time.Now()
		w.mu.Lock()
		if err := resp.Err(); err != nil {
			w.broken = err
		}
		for range resp.Events {
			w.seen++
			if i == w.chosen {
				w.at = now
			}
			if w.seen == 1 {
				w.first = now
			}
			if w.seen == w.n {
				w.last = now
				close(w.all)
			}
		}
		w.mu.Unlock()
	}
}

// sample makes one change with op. It returns the time from the call of op until the chosen watcher received
// the event, after all watchers have received it.
func (w *watchers) sample(ctx context.Context, chosen int, op func(*clientv3.Client) error) (time.Duration, error) {
	w.mu.Lock()
	w.seen, w.chosen, w.all = 0, chosen, make(chan struct{})
	all := w.all
	w.mu.Unlock()
	// If there are several connections, use another one than the chosen watcher's.
	client := w.clients[(chosen+len(w.clients)-1)%len(w.clients)]
	started := time.Now()
	if err := op(client); err != nil {
		return 0, err
	}
	select {
	case <-all:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.Sub(started), w.broken
}

// put and remove take one sample each, with the same key.
func (w *watchers) put(ctx context.Context, chosen int) (time.Duration, error) {
	return w.sample(ctx, chosen, func(c *clientv3.Client) error {
		_, err := c.Put(ctx, w.prefix+"key", "127.0.0.1:47001")
		return err
	})
}

func (w *watchers) remove(ctx context.Context, chosen int) (time.Duration, error) {
	return w.sample(ctx, chosen, func(c *clientv3.Client) error {
		_, err := c.Delete(ctx, w.prefix+"key")
		return err
	})
}

// putForAll puts value and returns the time from the call until all watchers received it.
func (w *watchers) putForAll(ctx context.Context, value string) (time.Duration, error) {
	started := time.Now()
	if _, err := w.sample(ctx, 0, func(c *clientv3.Client) error {
		_, err := c.Put(ctx, w.prefix+"key", value)
		return err
	}); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.Sub(started), nil
}

// removeForAll removes the key and returns the times until all watchers received that: from the first watcher's
// receipt, and from the call.
func (w *watchers) removeForAll(ctx context.Context, chosen int) (fromFirst, fromCall time.Duration, err error) {
	started := time.Now()
	if _, err := w.remove(ctx, chosen); err != nil {
		return 0, 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.Sub(w.first), w.last.Sub(started), nil
}

func (w *watchers) close() {
	w.cancel()
	w.wg.Wait()
}
