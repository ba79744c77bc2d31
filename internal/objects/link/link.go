package link

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// link is the caller's side of one link: a goroutine that opens it and then reads, and one that writes.
type link struct {
	peer    *peer
	ctx     context.Context // of the stream
	cancel  context.CancelFunc
	wake    chan struct{} // for the writer
	dead    atomic.Bool   // err is set
	lane    int           // its number among those to its node
	ready   atomic.Bool   // the node has accepted it
	written atomic.Uint64 // calls begun up to this one were encoded
	load    atomic.Int64  // bytes of calls in flight, and of those that wait for that

	// encoding is held, and taken before mu, while calls are encoded that were taken to be sent.
	encoding sync.Mutex

	mu       sync.Mutex
	waiters  map[uint64]*waiter // all calls of which no result is known
	lastID   uint64
	begun    uint64 // calls of which the first part was taken to be sent
	blocked  queue  // calls that wait until less is in flight
	out      outbox
	inFlight int64
	cancels  []uint64
	idle     bool   // the writer waits, and nobody sends in its place
	alone    bool   // a caller sends in the writer's place
	stream   stream // nil before it is open
	unproven uint64 // calls begun up to this one may not have been read by the peer, though they have ended
	err      error  // why no calls are taken any more
}

// waiter is a call in flight, and the goroutine that waits for its result.
type waiter struct {
	entry
	cost    int64
	parts   []byte // of the response
	done    chan result
	timer   *time.Timer  // nil before the first call that needs it
	message wire.Request // in which it is sent when it is alone
}

// within receives when so much time is over. The timer is used again by the next call.
func (w *waiter) within(d time.Duration) <-chan time.Time {
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	return w.timer.C
}

// result is how a call ended.
type result struct {
	reply *objectspb.Reply
	err   error
}

var waiters = sync.Pool{New: func() any { return &waiter{done: make(chan result, 1)} }}

func newLink(p *peer) *link {
	ctx, cancel := context.WithCancel(p.pool.ctx)
	return &link{peer: p, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1), waiters: map[uint64]*waiter{}}
}

// call sends a call and waits for its result. The error is errGone if the link takes none any more.
func (l *link) call(ctx context.Context, deadline time.Time, call *objectspb.Call, extra int,
	cost int64) (*objectspb.Reply, error) {
	w := waiters.Get().(*waiter)
	w.entry = entry{call: call, payload: call.Request, extra: extra}
	w.cost = cost
	var over <-chan time.Time
	if own, bounded := ctx.Deadline(); bounded {
		w.deadline = own
	} else if w.deadline = deadline; !deadline.IsZero() {
		over = w.within(time.Until(deadline))
	}
	if !l.begin(w) {
		return nil, errGone
	}
	var res result
	select {
	case res = <-w.done:
	case <-ctx.Done():
		if err := l.abandon(w, ctx.Err()); err != nil {
			return nil, err
		}
		res = <-w.done // it came first
	case <-over:
		if err := l.abandon(w, context.DeadlineExceeded); err != nil {
			return nil, err
		}
		res = <-w.done
	}
	if over != nil {
		w.timer.Stop()
	}
	if res.err != nil || len(call.Request) > partSize {
		l.encoded() // a reply to a part says nothing of the next one
	}
	w.entry, w.parts = entry{}, nil
	waiters.Put(w)
	return res.reply, res.err
}

// begin appends the call to those to be sent, or to those that wait until less is in flight.
func (l *link) begin(w *waiter) bool {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return false
	}
	l.lastID++
	w.id = l.lastID
	l.waiters[w.id] = w
	if l.blocked.n > 0 || !l.fits(w) {
		l.blocked.push(&w.entry)
		l.mu.Unlock()
		return true
	}
	l.inFlight += w.cost
	if l.mayPass(w) {
		l.sendAlone(w)
		return true
	}
	l.out.add(&w.entry)
	l.wakeWriter()
	l.mu.Unlock()
	return true
}

// fits reports whether the call may be in flight beside the others. The lock is held.
func (l *link) fits(w *waiter) bool {
	return l.inFlight == 0 || l.inFlight+w.cost <= l.peer.share(l.lane)
}

// wakeWriter wakes the writer if it waits. The lock is held.
func (l *link) wakeWriter() {
	if l.idle {
		l.idle = false
		poke(l.wake)
	}
}

// forget takes note that a call has ended, and lets those begin that waited for that. The lock is held.
func (l *link) forget(w *waiter) {
	delete(l.waiters, w.id)
	if w.in == &l.blocked {
		l.blocked.remove(&w.entry)
	} else {
		l.out.remove(&w.entry)
		l.inFlight -= w.cost
	}
	for l.blocked.n > 0 {
		next := l.waiters[l.blocked.first.id]
		if !l.fits(next) {
			return
		}
		l.blocked.remove(&next.entry)
		l.inFlight += next.cost
		l.out.add(&next.entry)
		l.wakeWriter()
	}
}

// abandon ends a call for whose result nobody waits any longer, and returns the error it ends with: why, and
// ErrNotSent as well where nothing of it was sent. It is nil if the call had a result already. The call is not read any
// more when it returns.
func (l *link) abandon(w *waiter, why error) error {
	l.mu.Lock()
	if l.waiters[w.id] != w {
		l.mu.Unlock()
		return nil
	}
	sent := w.begun > 0
	l.forget(w)
	if sent {
		l.cancels = append(l.cancels, w.id)
		l.wakeWriter()
	}
	l.mu.Unlock()
	if !sent {
		return fmt.Errorf("%w (address %s: %w)", ErrNotSent, l.peer.address, why)
	}
	l.encoded()
	return why
}

// encoded blocks until calls that were taken to be sent, and forgotten since, are not read any more.
func (l *link) encoded() {
	l.encoding.Lock()
	defer l.encoding.Unlock()
}

// endIdle ends the link if no call is in flight, and reports whether it did or had ended.
func (l *link) endIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiters) > 0 {
		return false
	}
	l.end(errGone)
	return true
}

// end has no further calls taken. The lock is held.
func (l *link) end(err error) {
	if l.err == nil {
		l.err = err
		l.dead.Store(true)
	}
	l.cancel()
}

// fail ends the link and all calls on it, with errors that say whether they may have been started: of those that
// were begun to be sent, the peer has begun to read the first taken ones; below 0: nobody knows how many.
func (l *link) fail(cause error, taken int64) {
	l.mu.Lock()
	l.end(cause)
	ended := l.waiters
	l.waiters = nil
	l.blocked, l.out, l.cancels = queue{}, outbox{}, nil
	l.mu.Unlock()
	for _, w := range ended {
		started := w.begun > 0 && (taken < 0 || w.begun <= uint64(taken))
		w.done <- result{err: failed(l.peer.address, cause, started)}
	}
}

// failed is the error of a call on a link that ended because of cause.
func failed(address string, cause error, started bool) error {
	kind := ErrNotSent
	switch {
	case cause == ErrClosed:
		return ErrClosed
	case started:
		kind = ErrLost
	case refuses(cause):
		kind = ErrRefused
	}
	return fmt.Errorf("%w (address %s: %w)", kind, address, cause)
}
