package etcdfault

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

type faultyWatcher struct {
	clientv3.Watcher
	f *Faults
}

// pass blocks until no fault keeps etcd's watches from the node.
func (w faultyWatcher) pass(ctx context.Context) error {
	if err := w.f.watching.waitOpen(ctx, w.f.dead); err != nil {
		return err
	}
	return w.f.linked.waitOpen(ctx, w.f.dead)
}

// Watch opens a watch and forwards its responses while watches are not frozen. Like the etcd client's Watch, it
// blocks until etcd has created the watch; it therefore also blocks while watches are frozen. Its goroutine
// ends with ctx or with the watch.
func (w faultyWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	out := make(chan clientv3.WatchResponse)
	if w.pass(ctx) != nil {
		<-ctx.Done()
		close(out)
		return out
	}
	ctx, cancel := context.WithCancel(ctx)
	in := w.Watcher.Watch(ctx, key, opts...)
	go func() {
		defer close(out)
		defer cancel()
		for {
			resp, ok := <-in
			// The end of a watch is news as well, and is held back too.
			if w.pass(ctx) != nil {
				<-ctx.Done()
				return
			}
			if !ok {
				return
			}
			select {
			case out <- resp:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// RequestProgress sends a progress request to etcd. It blocks while the node is cut off.
func (w faultyWatcher) RequestProgress(ctx context.Context) error {
	if err := w.f.linked.waitOpen(ctx, w.f.dead); err != nil {
		return err
	}
	return w.Watcher.RequestProgress(ctx)
}
