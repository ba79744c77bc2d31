package leasequeue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/wait"
)

// maxReadsPerTxn limits the queues read in one transaction.
const maxReadsPerTxn = 64

// watchRetry is the pause after a lost watch, and after a failed confirmation by the View. It starts over after
// a watch that lasted longer than the longest pause.
var watchRetry = backoff.Policy{First: 20 * time.Millisecond, Last: time.Second}

// streamRetry spaces the moves to another stream after refused watches. Each new stream is a log-in, and most refusals
// concern the user, whatever the token.
var streamRetry = backoff.Policy{First: time.Second, Last: 5 * time.Minute}

var (
	errRefused = errors.New("etcd refuses the watch")
	errIdle    = errors.New("no entry waits in these queues any longer")
	errSilent  = errors.New("the watch did not report a change that a read shows")
)

// run watches until the bucket has been idle for a while or the session is lost.
func (b *bucket) run() {
	retry, tokens, asked := b.r.e.newBackoff(watchRetry), b.r.e.newBackoff(streamRetry), time.Time{}
	for {
		began, stream := time.Now(), b.r.e.watchStream.Load()
		err := b.watch(b.r.ctx, stream)
		if errors.Is(err, errIdle) && b.retireIfUnused() || b.r.ctx.Err() != nil {
			return
		}
		if time.Since(began) > watchRetry.Last {
			retry.Reset()
			tokens.Reset()
		}
		if errors.Is(err, errRefused) && !time.Now().Before(asked) {
			b.r.e.watchStream.CompareAndSwap(stream, stream+1)
			asked = time.Now().Add(tokens.Next())
		}
		if !errors.Is(err, errIdle) && retry.Failures() == 0 { // the failures that follow in a row look alike
			b.r.e.cfg.Logger.Info("lost a watch of queues, opening it anew", "error", err)
		}
		// If etcd answers requests but opens no watch, this read alone notifies the waiting entries, where it
		// is allowed.
		_ = b.readQueues(b.r.ctx, true)
		idle := false
		b.r.e.withLock(func() {
			b.notifyWaiters()
			b.forgetContents()
			idle = b.dropUnused(time.Now())
		})
		if idle && b.retireIfUnused() {
			return
		}
		if !wait.For(b.r.ctx, retry.Next()) {
			return
		}
	}
}

// retireIfUnused removes the bucket from the run, and reports whether it did: not if the bucket is in use again.
func (b *bucket) retireIfUnused() (retired bool) {
	b.r.e.withLock(func() {
		if retired = len(b.queues) == 0; retired {
			delete(b.r.buckets, b.prefix)
		}
	})
	return retired
}

// watch opens the watch, reads the queues of interest, and applies the events.
func (b *bucket) watch(ctx context.Context, stream int64) error {
	// All watches of an engine share a stream. etcd checks permission with the token that opened the stream. If
	// that token has become invalid, another stream gets another one.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(
		metadata.AppendToOutgoingContext(ctx, "goverse-queues", fmt.Sprintf("%p-%d", b.r.e, stream))))
	defer cancel()
	b.r.e.withLock(func() { b.reportedRevision, b.missedRevision = 0, 0 })
	opening := time.AfterFunc(b.r.e.cfg.RequestTimeout, cancel)
	// Watch without a revision, and read once the watch is open: etcd serves such a watch at once. A watch from
	// an older revision is served only when etcd next looks at watchers that lag.
	events := b.r.e.cfg.Client.Watch(ctx, b.prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if resp, ok := <-events; !ok || resp.Err() != nil || !resp.Created {
		err := errors.Join(resp.Err(), context.Cause(ctx))
		if resp.Canceled {
			err = errors.Join(errRefused, err)
		}
		if err == nil {
			err = errSilent
		}
		return fmt.Errorf("open a watch of %s: %w", b.prefix, err)
	}
	if !opening.Stop() {
		return context.Cause(ctx)
	}
	tick := time.NewTicker(b.r.session.TTL() / 3)
	defer tick.Stop()
	again := false // read the known queues too
	for {
		if err := b.readQueues(ctx, again); err != nil {
			return err
		}
		again = false
		b.r.e.withLock(b.notifyWaiters)
		select {
		case resp, ok := <-events:
			if !ok {
				return errors.New("the watch ended")
			}
			if err := resp.Err(); err != nil {
				return err
			}
			b.applyResponse(resp)
		case <-b.wake:
		case now := <-tick.C:
			if err := b.checkWatch(now); err != nil {
				return err
			}
			again = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// applyResponse applies a response of the watch.
func (b *bucket) applyResponse(resp clientv3.WatchResponse) {
	b.r.recordTerm(resp.Header)
	changes := make([]order.Change, len(resp.Events))
	for i, ev := range resp.Events {
		changes[i] = order.Change{Revision: ev.Kv.ModRevision, Deleted: ev.Type == mvccpb.Event_DELETE,
			Entry: parseEntry(ev.Kv)}
	}
	b.r.e.withLock(func() {
		b.applyChanges(changes)
		b.reportedRevision = max(b.reportedRevision, resp.Header.Revision)
	})
}

// checkWatch returns errIdle if the watch is no longer needed, and errSilent if it has not reported a change
// that a read has shown.
func (b *bucket) checkWatch(now time.Time) (err error) {
	b.r.e.withLock(func() {
		switch {
		case b.dropUnused(now):
			err = errIdle
		case b.missedRevision > b.reportedRevision:
			err = errSilent
		}
	})
	return err
}

// readQueues reads the queues that were not read yet, and with again also those in use. A queue that may not be read
// does not keep the others from being read.
func (b *bucket) readQueues(ctx context.Context, again bool) error {
	var unread []string
	b.r.e.withLock(func() { unread = b.unreadQueues(again) })
	var denied error
	err := commitInParts(unread, maxReadsPerTxn, func(prefixes []string) (refused []string, _ error) {
		err := b.readPrefixes(ctx, prefixes)
		switch {
		case halvable(err) && len(prefixes) > 1:
			return prefixes, nil
		case errors.Is(err, rpctypes.ErrPermissionDenied):
			denied = cmp.Or(denied, err)
			return nil, nil
		}
		return nil, err
	})
	return cmp.Or(err, denied)
}

func (b *bucket) readPrefixes(ctx context.Context, prefixes []string) error {
	ops := make([]clientv3.Op, len(prefixes))
	for i, prefix := range prefixes {
		ops[i] = clientv3.OpGet(prefix, clientv3.WithPrefix())
	}
	resp, err := b.r.commitTxn(ctx, nil, ops, nil)
	if err != nil {
		return fmt.Errorf("read the queues: %w", err)
	}
	found := make([]order.Queue, len(prefixes))
	for i := range found {
		entries := parseEntries((*clientv3.GetResponse)(resp.Responses[i].GetResponseRange()))
		found[i] = order.Queue{}.ApplyRead(resp.Header.Revision, entries)
	}
	b.r.e.withLock(func() {
		for i, prefix := range prefixes {
			b.applyRead(prefix, found[i])
		}
	})
	return nil
}
