package modeletcd

import (
	"context"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/wait"
)

// watch is a watch on a range. etcd's responses arrive in order. The client reopens a broken watch at its last
// position, without notifying the watch's user.
type watch struct {
	c       *Conn
	m       *member // member at which it was opened
	request *pb.WatchCreateRequest

	resume   int64 // revision to reopen it from; 0 for the next change
	stream   int   // number of streams it was on
	opened   bool  // etcd has it, on this stream
	next     int64 // the first revision that was not sent
	inFlight []clientv3.WatchResponse
	last     time.Time // arrival of the newest of them

	created   bool // the client knows that it was opened
	over      bool // etcd has ended it
	responses []clientv3.WatchResponse
	wake      wait.Signal
}

// watcher implements clientv3.Watcher. All its watches report their creation.
type watcher struct{ c *Conn }

// RequestProgress makes the watches report their progress, unless [Conn.SetProxied] is in effect.
func (w watcher) RequestProgress(context.Context) error {
	c := w.c
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	if c.proxied {
		return nil
	}
	delivery := c.delivery(&pb.WatchRequest{
		RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	if delivery.Lost {
		return nil
	}
	c.runAfter(delivery.Out, func() {
		for _, w := range c.watches {
			w.sendProgress()
		}
	})
	return nil
}

func (w watcher) Close() error { return nil }

func (w watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpWatch(key, opts...)
	c := w.c
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	x := &watch{c: c, request: &pb.WatchCreateRequest{Key: op.KeyBytes(), RangeEnd: op.RangeBytes()}, resume: op.Rev(),
		wake: wait.NewSignal()}
	c.watches = append(c.watches, x)
	x.requestWatch()
	out := make(chan clientv3.WatchResponse, 1)
	go x.run(ctx, out)
	return out
}

// run forwards responses until ctx or the watch ends.
func (w *watch) run(ctx context.Context, out chan<- clientv3.WatchResponse) {
	defer close(out)
	defer w.close()
	for {
		w.c.etcd.mu.Lock()
		responses, over := w.responses, w.over
		w.responses = nil
		w.c.etcd.mu.Unlock()
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
	w.c.etcd.mu.Lock()
	defer w.c.etcd.mu.Unlock()
	w.stream++
	w.opened = false
	w.c.watches = slices.DeleteFunc(w.c.watches, func(x *watch) bool { return x == w })
}

// requestWatch sends the request that creates the watch. Its callers hold the lock, as do those of all functions below.
func (w *watch) requestWatch() {
	w.stream++
	w.opened, w.inFlight, w.m = false, nil, w.c.etcd.members[w.c.nextMember()]
	stream, delivery := w.stream, w.c.delivery(&pb.WatchRequest{
		RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: w.request}})
	if delivery.Lost {
		return
	}
	m := w.m
	w.c.runAfter(delivery.Out, func() {
		w.c.etcd.deliverToMember(m, func() {
			w.c.etcd.runWithMajority(m, func() {
				if stream == w.stream {
					w.registerWatch()
				}
			})
		})
	})
}

// registerWatch registers the watch with etcd.
func (w *watch) registerWatch() {
	revision := w.c.etcd.store.revision
	w.opened, w.next = true, w.resume
	if w.next == 0 {
		w.next = revision + 1
	}
	w.enqueueResponse(clientv3.WatchResponse{Header: w.header(), Created: true})
	if w.c.stillborn {
		w.opened, w.c.stillborn = false, false
		return
	}
	w.sendEvents()
}

// sendEvents sends the events since the last response, unless deliveries are stopped; they are then sent later.
func (w *watch) sendEvents() {
	revision := w.c.etcd.store.revision
	if !w.opened || w.c.held || w.c.frozen || !w.m.isUp() || w.next > revision {
		return
	}
	if w.m.leads && w.m != w.c.etcd.leader {
		return // it steps down before it applies entries that another leader committed
	}
	if revision > w.c.etcd.elected {
		w.m.term = w.c.etcd.term // it has applied an entry of the present term
	}
	events, known := w.c.etcd.store.eventsBetween(w.request, w.next, revision)
	if !known {
		w.opened = false
		w.enqueueResponse(clientv3.WatchResponse{Header: w.header(), Canceled: true,
			CompactRevision: w.c.etcd.store.compacted})
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
	w.enqueueResponse(resp)
}

// header returns a header with etcd's present revision and the member's term.
func (w *watch) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{Revision: w.c.etcd.store.revision, RaftTerm: w.m.term}
}

// sendProgress sends the watch's progress if all events were sent before.
func (w *watch) sendProgress() {
	if w.opened && !w.c.frozen && w.m.isUp() && w.next > w.c.etcd.store.revision {
		w.enqueueResponse(clientv3.WatchResponse{Header: w.header()})
	}
}

// enqueueResponse puts a response on its way; responses do not overtake each other.
func (w *watch) enqueueResponse(resp clientv3.WatchResponse) {
	now := time.Now()
	what := &pb.WatchResponse{Header: resp.Header, Created: resp.Created, Canceled: resp.Canceled}
	for _, ev := range resp.Events {
		what.Events = append(what.Events, (*mvccpb.Event)(ev))
	}
	if arrival := now.Add(w.c.delivery(what).Back); arrival.After(w.last) {
		w.last = arrival
	}
	w.inFlight = append(w.inFlight, resp)
	stream := w.stream
	w.c.runAfter(w.last.Sub(now), func() {
		if stream == w.stream {
			w.deliverResponse()
		}
	})
}

// deliverResponse delivers the oldest response that is under way.
func (w *watch) deliverResponse() {
	resp := w.inFlight[0]
	w.inFlight = w.inFlight[1:]
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
	w.wake.Send()
}

func (c *Conn) sendEvents() {
	for _, w := range c.watches {
		w.sendEvents()
	}
}

// SetFrozen stops the watches from delivering events, until SetFrozen(false).
func (c *Conn) SetFrozen(on bool) {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	c.frozen = on
	c.sendEvents()
}

// BreakWatches breaks the streams of the watches, which the client then reopens.
func (c *Conn) BreakWatches() {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	for _, w := range c.watches {
		w.requestWatch()
	}
}

// SilenceWatches stops all deliveries through the existing watches or, with next, through the next ones to be opened,
// after the confirmation that they were created. Neither side gets an error. It cannot be undone.
func (c *Conn) SilenceWatches(next bool) {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	c.stillborn = next
	for _, w := range c.watches {
		if next {
			w.requestWatch()
		} else {
			w.opened = false
			w.stream++
		}
	}
}

// AbortWatches lets etcd end all watches with an error.
func (c *Conn) AbortWatches() {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	for _, w := range c.watches {
		w.opened = false
		w.enqueueResponse(clientv3.WatchResponse{Header: &pb.ResponseHeader{}, Canceled: true,
			CancelReason: "etcdserver: no leader"})
	}
}
