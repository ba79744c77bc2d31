package clustertest

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

type faultyWatcher struct {
	clientv3.Watcher
	f *Faults
}

// pass waits until etcd's watches reach the node.
func (w faultyWatcher) pass(ctx context.Context) error {
	if err := w.f.watching.pass(ctx, w.f.dead); err != nil {
		return err
	}
	return w.f.linked.pass(ctx, w.f.dead)
}

// Watch opens a watch and hands on what it delivers while nothing is frozen. As
// etcd's own does, it blocks until etcd said that the watch stands: so not while
// it is frozen. The goroutine ends with ctx or the watch.
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
			// That a watch has ended is news as well, and does not come through.
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

// RequestProgress asks etcd, unless the node is cut off.
func (w faultyWatcher) RequestProgress(ctx context.Context) error {
	if err := w.f.linked.pass(ctx, w.f.dead); err != nil {
		return err
	}
	return w.Watcher.RequestProgress(ctx)
}
