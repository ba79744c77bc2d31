package operator

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/eventlog"
	"github.com/goverse/goverse/internal/wait"
)

// Events calls show with each event of the log that q selects, oldest first. With follow, Events goes on with new
// events of the same types until ctx ends.
// Timeout limits the first read. Skipped counts values in the log that were not events. Events returns the
// errors of Read and of show.
func (o *Operator) Events(ctx context.Context, timeout time.Duration, q event.Query, follow bool,
	show func(event.Event) error) (skipped int, err error) {
	var log eventlog.Listing
	first, cancel := context.WithTimeout(ctx, timeout)
	err = o.etcd.Ask(first, "READ on the prefix "+o.keys.Events(), func(ctx context.Context) (err error) {
		log, err = eventlog.List(ctx, o.client, o.keys, q)
		return err
	})
	cancel()
	if err != nil {
		return 0, err
	}
	for _, e := range log.Events {
		if err := show(e); err != nil {
			return log.Skipped, err
		}
	}
	if follow {
		stop := o.reportOutages(ctx, o.keys.Events())
		err = eventlog.Follow(ctx, o.client, o.keys, log.Revision, func(e event.Event) error {
			if len(q.Types) > 0 && !slices.Contains(q.Types, e.Type) {
				return nil
			}
			return show(e)
		})
		stop()
	}
	return log.Skipped, err
}

// reportOutages asks etcd for a key each second, because a watch reports nothing when etcd is gone. An etcd that does
// not answer is reported as by Read. It ends with ctx, or when stop is called, which joins it.
func (o *Operator) reportOutages(ctx context.Context, key string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for wait.For(ctx, checkInterval) {
			_ = o.etcd.Ask(ctx, "", func(ctx context.Context) error { // the watch fails by itself
				_, err := o.client.Get(ctx, key, clientv3.WithCountOnly())
				return err
			})
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}
