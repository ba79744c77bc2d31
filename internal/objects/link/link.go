package link

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/internal/objects/link/wire"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// link is the caller's side of one link. One goroutine opens it and then reads; another one writes.
type link struct {
	peer    *peer
	ctx     context.Context // of the stream
	cancel  context.CancelFunc
	wake    wait.Signal   // wakes the writer
	ended   atomic.Bool   // err is set
	lane    int           // its number among the links to its node
	ready   atomic.Bool   // the node has accepted it
	written atomic.Uint64 // calls with begun up to this number were encoded
	load    atomic.Int64  // bytes of the calls in flight, and of those that wait to be

	// encoding is held while calls taken from the outbox are encoded. It is acquired before mu.
	encoding sync.Mutex

	mu           sync.Mutex
	outgoing     map[uint64]*outgoing // all calls without a result
	lastID       uint64
	begun        uint64     // the number of calls taken to be sent, at least their first part
	blocked      entryQueue // calls that wait until less is in flight
	out          outbox
	inFlight     int64
	cancels      []uint64
	idle         bool         // the writer waits, and no caller sends in its place
	callerSends  bool         // a caller sends in place of the writer
	stream       clientStream // nil before it is open
	unprovenUpTo uint64       // calls with begun up to this number may be unread by the peer although they have ended
	err          error        // why the link accepts no more calls
}

// outgoing is a call in flight, with the channel on which its caller waits for the result.
type outgoing struct {
	entry
	cost    int64
	parts   []byte // of the response
	done    chan result
	timer   *time.Timer  // nil before the first call that needs it
	message wire.Request // the message in which a lone call is sent
}

// startTimer returns a channel that receives when d has passed. The next call reuses the timer.
func (w *outgoing) startTimer(d time.Duration) <-chan time.Time {
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	return w.timer.C
}

// result is the outcome of a call.
type result struct {
	reply *objectspb.Reply
	err   error
}

var outgoingPool = sync.Pool{New: func() any { return &outgoing{done: make(chan result, 1)} }}

func newLink(p *peer) *link {
	ctx, cancel := context.WithCancel(p.pool.ctx)
	return &link{peer: p, ctx: ctx, cancel: cancel, wake: wait.NewSignal(), outgoing: map[uint64]*outgoing{}}
}

// doCall sends a call and waits for its result. It returns errGone if the link accepts no more calls.
func (l *link) doCall(ctx context.Context, deadline time.Time, call *objectspb.Call, extra int,
	cost int64) (*objectspb.Reply, error) {
	w := outgoingPool.Get().(*outgoing)
	w.entry = entry{call: call, payload: call.Request, extra: extra}
	w.cost = cost
	var over <-chan time.Time
	if own, bounded := ctx.Deadline(); bounded {
		w.deadline = own
	} else if w.deadline = deadline; !deadline.IsZero() {
		over = w.startTimer(time.Until(deadline))
	}
	if !l.beginCall(w) {
		return nil, errGone
	}
	var res result
	select {
	case res = <-w.done:
	case <-ctx.Done():
		if err := l.abandonCall(w, ctx.Err()); err != nil {
			return nil, err
		}
		res = <-w.done // the result came first
	case <-over:
		if err := l.abandonCall(w, context.DeadlineExceeded); err != nil {
			return nil, err
		}
		res = <-w.done
	}
	if over != nil {
		w.timer.Stop()
	}
	if res.err != nil || len(call.Request) > partSize {
		l.awaitEncoded() // because a reply to one part does not mean that the next part is no longer read
	}
	w.entry, w.parts = entry{}, nil
	outgoingPool.Put(w)
	return res.reply, res.err
}

// beginCall appends the call to the outbox, or to the calls that wait until less is in flight. It returns false if
// the link accepts no more calls.
func (l *link) beginCall(w *outgoing) bool {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return false
	}
	l.lastID++
	w.id = l.lastID
	l.outgoing[w.id] = w
	if l.blocked.n > 0 || !l.fitsInFlight(w) {
		l.blocked.push(&w.entry)
		l.mu.Unlock()
		return true
	}
	l.inFlight += w.cost
	if l.maySendAlone(w) {
		l.sendAlone(w)
		return true
	}
	l.out.add(&w.entry)
	l.wakeWriter()
	l.mu.Unlock()
	return true
}

// fitsInFlight reports whether the call may be in flight beside the others. The caller holds the lock.
func (l *link) fitsInFlight(w *outgoing) bool {
	return l.inFlight == 0 || l.inFlight+w.cost <= l.peer.laneShare(l.lane)
}

// wakeWriter wakes the writer if it waits. The caller holds the lock.
func (l *link) wakeWriter() {
	if l.idle {
		l.idle = false
		l.wake.Send()
	}
}

// forgetCall removes a call that has ended, and lets blocked calls begin that now fit. The caller holds the lock.
func (l *link) forgetCall(w *outgoing) {
	delete(l.outgoing, w.id)
	if w.inQueue == &l.blocked {
		l.blocked.remove(&w.entry)
	} else {
		l.out.remove(&w.entry)
		l.inFlight -= w.cost
	}
	for l.blocked.n > 0 {
		next := l.outgoing[l.blocked.first.id]
		if !l.fitsInFlight(next) {
			return
		}
		l.blocked.remove(&next.entry)
		l.inFlight += next.cost
		l.out.add(&next.entry)
		l.wakeWriter()
	}
}

// abandonCall ends a call for which its caller no longer waits, and returns the call's error: why, and also
// ErrNotSent if nothing of the call was sent. It returns nil if the call already had a result. Once abandonCall has
// returned, the link no longer reads the call.
func (l *link) abandonCall(w *outgoing, why error) error {
	l.mu.Lock()
	if l.outgoing[w.id] != w {
		l.mu.Unlock()
		return nil
	}
	sent := w.begun > 0
	l.forgetCall(w)
	if sent {
		l.cancels = append(l.cancels, w.id)
		l.wakeWriter()
	}
	l.mu.Unlock()
	if !sent {
		return fmt.Errorf("%w (address %s: %w)", ErrNotSent, l.peer.address, why)
	}
	l.awaitEncoded()
	return why
}

// awaitEncoded blocks until the link no longer reads calls that were taken to be sent and have since been forgotten.
func (l *link) awaitEncoded() {
	l.encoding.Lock()
	defer l.encoding.Unlock()
}

// endIdle ends the link if no call is in flight. It reports whether it ended the link, or the link had ended
// before.
func (l *link) endIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.outgoing) > 0 {
		return false
	}
	l.stopAccepting(errGone)
	return true
}

// stopAccepting stops the acceptance of calls. The caller holds the lock.
func (l *link) stopAccepting(err error) {
	if l.err == nil {
		l.err = err
		l.ended.Store(true)
	}
	l.cancel()
}

// failCalls ends the link and all its calls with errors that tell whether they may have been started. taken is the
// number of calls, in the order in which they were sent, that the peer has begun to read; a negative number
// means unknown.
func (l *link) failCalls(cause error, taken int64) {
	l.mu.Lock()
	l.stopAccepting(cause)
	ended := l.outgoing
	l.outgoing = nil
	l.blocked, l.out, l.cancels = entryQueue{}, outbox{}, nil
	l.mu.Unlock()
	for _, w := range ended {
		started := w.begun > 0 && (taken < 0 || w.begun <= uint64(taken))
		w.done <- result{err: callError(l.peer.address, cause, started)}
	}
}

// callError returns the error of a call on a link that ended because of cause.
func callError(address string, cause error, started bool) error {
	kind := ErrNotSent
	switch {
	case cause == ErrClosed:
		return ErrClosed
	case started:
		kind = ErrLost
	case isRefusal(cause):
		kind = ErrRefused
	}
	return fmt.Errorf("%w (address %s: %w)", kind, address, cause)
}
