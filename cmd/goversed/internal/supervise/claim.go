//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
)

// errBusy is returned when the lock is not free.
var errBusy = errors.New("held by another")

const (
	// requestTimeout limits each request to etcd or PostgreSQL.
	requestTimeout = 2 * time.Second
	// lastCheckTimeout limits the request that checks, after the time for a lock is over, whether others hold it.
	lastCheckTimeout = time.Second / 2
)

// workTimeout is the work time-out of elections: a term that is over waits until nothing of the command is left.
const workTimeout = 100 * 365 * 24 * time.Hour

// store keeps this process's sessions in etcd or PostgreSQL, one after the other, and what is held in them. Before a
// lost session is given up for the others, it waits until the claim is idle.
type store interface {
	// acquire blocks until the term or lock is held, or ctx ends. Errors are ctx's cause, errBusy, and refusals.
	acquire(ctx context.Context) (*heldClaim, error)
	// session returns the current session, nil between two sessions.
	session() holderSession
	// awaitSession blocks until there is a session, or ctx ends.
	awaitSession(ctx context.Context) error
	// readFirst reads the first entry of the queue, which holds the lock or leads.
	readFirst(ctx context.Context) (firstEntry, error)
	// close gives up the session and all that is held in it.
	close()
}

// holderSession is a session in etcd or PostgreSQL.
type holderSession interface {
	// TTL returns the time from the sending of a renewal to the deadline.
	TTL() time.Duration
	// TimeLeft returns the time until the deadline.
	TimeLeft() time.Duration
	// RequestRenewal makes the next renewal come soon.
	RequestRenewal()
	// Number identifies the session for the guard.
	Number() int64
}

// firstEntry is the first entry of a queue.
type firstEntry struct {
	exists bool
	owner  string
	own    bool // it belongs to this process's session
}

// claim is this process's part in the election or lock.
type claim struct {
	cfg    Config
	store  store
	closed bool

	mu   sync.Mutex
	busy chan struct{} // closed when nothing of the current command is left; nil without a command
}

// heldClaim is a term or lock that this process holds.
type heldClaim struct {
	ctx     context.Context // ends when the term or lock is lost
	session holderSession
	number  int64  // of the session that it belongs to; 0 if it is not known
	key     string // see GOVERSE_KEY
	keys    string // the entry in GOVERSE_KEYS
	token   int64
	// declareIdle declares that no work runs under it any more. Only then can releaseTerm release it.
	declareIdle func()
	release     func(ctx context.Context) error
}

// close gives up the session, which releases everything in it. It may be called again.
func (c *claim) close() {
	if !c.closed {
		c.closed = true
		c.store.close()
	}
}

// beginCommand records that a command is about to run. The caller must call end when nothing of the command is left.
func (c *claim) beginCommand() (end func()) {
	done := make(chan struct{})
	c.mu.Lock()
	c.busy = done
	c.mu.Unlock()
	return func() { close(done) }
}

// waitIdle blocks while anything of a command is left, or until ctx ends.
func (c *claim) waitIdle(ctx context.Context) {
	c.mu.Lock()
	busy := c.busy
	c.mu.Unlock()
	if busy == nil {
		return
	}
	select {
	case <-busy:
	case <-ctx.Done():
	}
}

// acquire blocks until the term or lock is held, or ctx ends. Errors are ctx's cause, errBusy, and refusals by the
// store.
func (c *claim) acquire(ctx context.Context) (*heldClaim, error) {
	if !c.cfg.Try {
		waiting, taken := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { c.logWaiting(waiting) })
		defer wg.Wait()
		defer taken()
	}
	for {
		h, err := c.store.acquire(ctx)
		if err != nil {
			return nil, err
		}
		// There is one session at a time, so while h is held it belongs to the current one. The context of a term ends a
		// moment after its session.
		h.session = c.store.session()
		if h.session != nil && h.ctx.Err() == nil && (h.number == 0 || h.number == h.session.Number()) {
			return h, nil
		}
		h.declareIdle()
		if err := h.release(ctx); err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// blockedByOthers reports whether a wait was in vain because of other processes: the store answers, and either the
// queue has an entry or this process has a session. A session alone is no proof, because it outlives a short outage.
func (c *claim) blockedByOthers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), lastCheckTimeout)
	defer cancel()
	first, err := c.store.readFirst(ctx)
	return err == nil && (first.exists || c.store.session() != nil)
}

// leader is a candidacy in an election.
type leader interface {
	Lead(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error
	Resign(ctx context.Context) error
}

// acquireTerm waits for a term, which lasts until it is given up or lost. The election waits for the function passed
// to Lead, which returns when declareIdle is called. The term must have the key, which the command needs.
func acquireTerm(ctx context.Context, e leader) (*heldClaim, error) {
	terms, over, left := make(chan leaderelection.Term, 1), make(chan struct{}), make(chan error, 1)
	go func() { // ends with ctx, or after declareIdle
		left <- e.Lead(ctx, func(_ context.Context, t leaderelection.Term) error {
			terms <- t
			<-over
			return nil
		})
	}()
	select {
	case t := <-terms:
		h := &heldClaim{ctx: t.Context(), number: sessionOf(t), key: t.(keyed).Key(), token: t.Token()}
		h.declareIdle = func() { close(over); <-left }
		h.release = func(ctx context.Context) error {
			if err := e.Resign(ctx); !errors.Is(err, leaderelection.ErrNotLeader) {
				return err
			}
			return nil // it is lost already
		}
		return h, nil
	case err := <-left:
		return nil, err
	}
}

// keyed is a term or a held lock whose key can be named.
type keyed interface{ Key() string }

// sessionOf returns the number of the session that a term or lock in PostgreSQL belongs to, 0 for one in etcd.
func sessionOf(held any) int64 {
	if s, ok := held.(interface{ SessionID() int64 }); ok {
		return s.SessionID()
	}
	return 0
}
