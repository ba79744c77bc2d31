package modeletcd

import (
	"context"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watch is a watch on a range. etcd's responses arrive in order. The client reopens a broken watch at its last
// position, without notifying the watch's user.
type watch struct {
	c  *Conn
	m  *member // member at which it was opened
	of *pb.WatchCreateRequest

	resume int64 // revision to reopen it from; 0 for the next change
	stream int   // number of streams it was on
	opened bool  // etcd has it, on this stream
	next   int64 // the first revision that was not sent
	onWay  []clientv3.WatchResponse
	last   time.Time // arrival of the newest of them

	created   bool // the client knows that it was opened
	over      bool // etcd has ended it
	responses []clientv3.WatchResponse
	wake      chan struct{}
}

// watcher implements clientv3.Watcher. All its watches report their creation.
type watcher struct{ c *Conn }

// RequestProgress makes the watches report their progress, unless the connection is [Conn.Proxied].
func (w watcher) RequestProgress(context.Context) error {
	c := w.c
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.proxied {
		return nil
	}
	delivery := c.delivery(&pb.WatchRequest{
		RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	if delivery.Lost {
		return nil
	}
	c.after(delivery.Out, func() {
		for _, w := range c.watches {
			w.report()
		}
	})
	return nil
}

func (w watcher) Close() error { return nil }

func (w watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpWatch(key, opts...)
	c := w.c
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	x := &watch{c: c, of: &pb.WatchCreateRequest{Key: op.KeyBytes(), RangeEnd: op.RangeBytes()}, resume: op.Rev(),
		wake: make(chan struct{}, 1)}
	c.watches = append(c.watches, x)
	x.open()
	out := make(chan clientv3.WatchResponse, 1)
	go x.run(ctx, out)
	return out
}

// run forwards responses until ctx or the watch ends.
func (w *watch) run(ctx context.Context, out chan<- clientv3.WatchResponse) {
	defer close(out)
	defer w.close()
	for {
		w.c.e.mu.Lock()
		responses, over := w.responses, w.over
		w.responses = nil
		w.c.e.mu.Unlock()
		for _, resp := range responses {
			select {
			case out <- resp:
			case <-ctx.Done():
				return
			}
		}
		if over {
			return
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watch) close() {
	w.c.e.mu.Lock()
	defer w.c.e.mu.Unlock()
	w.stream++
	w.opened = false
	w.c.watches = slices.DeleteFunc(w.c.watches, func(x *watch) bool { return x == w })
}

// open sends the request that creates the watch. Its callers hold the lock, as do those of all functions below.
func (w *watch) open() {
	w.stream++
	w.opened, w.onWay, w.m = false, nil, w.c.e.members[w.c.to()]
	stream, delivery := w.stream, w.c.delivery(&pb.WatchRequest{
		RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: w.of}})
	if delivery.Lost {
		return
	}
	m := w.m
	w.c.after(delivery.Out, func() {
		w.c.e.arrive(m, func() {
			w.c.e.consent(m, func() {
				if stream == w.stream {
					w.begin()
				}
			})
		})
	})
}

// begin registers the watch with etcd.
func (w *watch) begin() {
	revision := w.c.e.store.revision
	w.opened, w.next = true, w.resume
	if w.next == 0 {
		w.next = revision + 1
	}
	w.send(clientv3.WatchResponse{Header: w.header(), Created: true})
	if w.c.stillborn {
		w.opened, w.c.stillborn = false, false
		return
	}
	w.tell()
}

// tell sends the events since the last response, unless deliveries are stopped; they are then sent later.
func (w *watch) tell() {
	revision := w.c.e.store.revision
	if !w.opened || w.c.held || w.c.frozen || !w.m.up() || w.next > revision {
		return
	}
	if w.m.leads && w.m != w.c.e.leader {
		return // it steps down before it applies entries that another leader committed
	}
	if revision > w.c.e.elected {
		w.m.term = w.c.e.term // it has applied an entry of the present term
	}
	events, known := w.c.e.store.since(w.of, w.next, revision)
	if !known {
		w.opened = false
		w.send(clientv3.WatchResponse{Header: w.header(), Canceled: true,
			CompactRevision: w.c.e.store.compacted})
		return
	}
	w.next = revision + 1
	if len(events) == 0 {
		return
	}
	resp := clientv3.WatchResponse{Header: w.header()}
	for _, ev := range events {
		resp.Events = append(resp.Events, (*clientv3.Event)(ev))
	}
	w.send(resp)
}

// header returns a header with etcd's present revision and the member's term.
func (w *watch) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{Revision: w.c.e.store.revision, RaftTerm: w.m.term}
}

// report sends the watch's progress if all events were sent before.
func (w *watch) report() {
	if w.opened && !w.c.frozen && w.m.up() && w.next > w.c.e.store.revision {
		w.send(clientv3.WatchResponse{Header: w.header()})
	}
}

// send puts a response on its way; responses do not overtake each other.
func (w *watch) send(resp clientv3.WatchResponse) {
	now := time.Now()
	what := &pb.WatchResponse{Header: resp.Header, Created: resp.Created, Canceled: resp.Canceled}
	for _, ev := range resp.Events {
		what.Events = append(what.Events, (*mvccpb.Event)(ev))
	}
	if arrival := now.Add(w.c.delivery(what).Back); arrival.After(w.last) {
		w.last = arrival
	}
	w.onWay = append(w.onWay, resp)
	stream := w.stream
	w.c.after(w.last.Sub(now), func() {
		if stream == w.stream {
			w.arrived()
		}
	})
}

// arrived delivers the oldest response that is under way.
func (w *watch) arrived() {
	resp := w.onWay[0]
	w.onWay = w.onWay[1:]
	switch {
	case resp.Canceled:
		w.over = true
	case len(resp.Events) > 0:
		w.resume = resp.Events[len(resp.Events)-1].Kv.ModRevision + 1
	case !resp.Created:
		w.resume = max(w.resume, resp.Header.Revision+1)
	case w.created:
		return // reopened; the user is not notified
	default:
		w.created = true
		if w.resume == 0 {
			w.resume = resp.Header.Revision // as the client does
		}
	}
	w.responses = append(w.responses, resp)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (c *Conn) tell() {
	for _, w := range c.watches {
		w.tell()
	}
}

// Freeze stops the watches from delivering events, until Freeze(false).
func (c *Conn) Freeze(on bool) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.frozen = on
	c.tell()
}

// Break breaks the streams of the watches, which the client then reopens.
func (c *Conn) Break() {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	for _, w := range c.watches {
		w.open()
	}
}

// Silence stops all deliveries through the existing watches or, with next, through the next ones to be opened,
// after the confirmation that they were created. Neither side gets an error. It cannot be undone.
func (c *Conn) Silence(next bool) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.stillborn = next
	for _, w := range c.watches {
		if next {
			w.open()
		} else {
			w.opened = false
			w.stream++
		}
	}
}

// Abort lets etcd end all watches with an error.
func (c *Conn) Abort() {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	for _, w := range c.watches {
		w.opened = false
		w.send(clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true, CancelReason: "etcdserver: no leader"})
	}
}
