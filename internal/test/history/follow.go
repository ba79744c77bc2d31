package history

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// catchUp limits the time that Follow continues after its context has ended.
	catchUp = 5 * time.Second
	// watchAgain is the pause before a watch that ended is opened again.
	watchAgain = 100 * time.Millisecond
)

// Follow records etcd's own history of the register, from revision from on; pass one from before the first
// write. Only one process of a recording calls it. It blocks until ctx ends, and then until it has seen the
// register's content at that time; it returns an error if that takes more than 5 s. A watch that ends is
// reopened at its last position. Revisions that etcd compacted before they were seen are recorded as a gap.
func (g *Register) Follow(ctx context.Context, from int64) error {
	// own outlives ctx by catchUp.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(catchUp, cancel) })()
	f := follower{register: g, next: from}
	ended, target := ctx.Done(), int64(0) // target: the register's revision when ctx had ended
	for own.Err() == nil {
		watch := g.client.Watch(own, g.key, clientv3.WithRev(f.next))
		for open := true; open; {
			select {
			case resp, ok := <-watch:
				open = ok && !f.record(resp)
			case <-ended:
				ended = nil
				resp, err := g.client.Get(own, g.key)
				if err != nil {
					return fmt.Errorf("read the register %s at the end of its history: %w", g.key, err)
				}
				if len(resp.Kvs) == 1 {
					target = resp.Kvs[0].ModRevision
				}
			}
			if ended == nil && f.next > target {
				return nil
			}
		}
		select {
		case <-time.After(watchAgain):
		case <-own.Done():
		}
	}
	return fmt.Errorf("follow the register %s: its history was seen only before revision %d: %w", g.key, f.next, own.Err())
}

// follower tracks how much of the history was seen.
type follower struct {
	register *Register
	next     int64 // the first revision not seen yet
}

// record records the events of a watch response and reports whether the watch is over.
func (f *follower) record(resp clientv3.WatchResponse) (over bool) {
	if resp.CompactRevision > f.next {
		f.register.rec.writeLines(recordLine{Gap: &Gap{Key: f.register.key, From: f.next, To: resp.CompactRevision}})
		f.next = resp.CompactRevision
	}
	for _, e := range resp.Events {
		entry := Entry{Key: f.register.key, Subject: f.register.subject, Revision: e.Kv.ModRevision, At: Now(),
			Deleted: e.Type == clientv3.EventTypeDelete}
		if !entry.Deleted {
			entry.Token, entry.Value = decodeValue(e.Kv.Value)
		}
		f.register.rec.writeLines(recordLine{Entry: &entry})
		f.next = e.Kv.ModRevision + 1
	}
	return resp.Err() != nil
}
