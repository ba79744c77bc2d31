package operator

import (
	"context"
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/eventlog"
)

// Events calls show with each event of the log that happened at since or later, oldest first. Limit restricts
// the result to the newest events; 0 means all. With follow, Events goes on with new events until ctx ends.
// Timeout limits the first read. Skipped counts values in the log that were not events. Events returns the
// errors of Read and of show.
func (o *Operator) Events(ctx context.Context, timeout time.Duration, since time.Time, limit int, follow bool,
	show func(event.Event) error) (skipped int, err error) {
	var log eventlog.Listing
	first, cancel := context.WithTimeout(ctx, timeout)
	err = o.etcd.Ask(first, "READ on the prefix "+o.keys.Events(), func(ctx context.Context) (err error) {
		log, err = eventlog.List(ctx, o.client, o.keys, event.Query{Since: since, Limit: limit})
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
		err = eventlog.Follow(ctx, o.client, o.keys, log.Revision, show)
	}
	return log.Skipped, err
}
