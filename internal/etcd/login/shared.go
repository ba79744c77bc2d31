package login

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// attemptTimeout bounds one attempt to log in. An etcd that is short of processor time needs seconds.
	attemptTimeout = 10 * time.Second
	// minStuckAfter is the shortest time after which an attempt may be considered stuck at an endpoint that hangs.
	minStuckAfter = time.Second
	// maxAttempts limits how many attempts of one log-in run at a time.
	maxAttempts = 2
	// unclaimedFor is how long a token is kept if no caller waited for it until it came.
	unclaimedFor = 3 * time.Second
	// newFor is how long after a log-in its token serves further callers. Their requests were under way with the former
	// token, or they open a stream. It is short, because etcd may forget the token in this time, too.
	newFor = time.Second / 2
)

var errClosed = errors.New("the client is closed")

// sharedAuth is etcd's Auth service with another way to log in.
type sharedAuth struct {
	clientv3.Auth
	ctx       context.Context // ends when the client is closed
	endpoints func() []string // the client's present ones; if there are several, one may hang
	// logIn asks etcd for a token once.
	logIn    func(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error)
	attempts sync.WaitGroup

	mu     sync.Mutex
	closed bool // no more attempts begin
	logIns map[user]*sharedLogIn
}

// user is a user of the etcd at some endpoints, separated by commas.
type user struct{ name, password, endpoints string }

// sharedLogIn is a log-in in progress, or the last token.
type sharedLogIn struct {
	ctx    context.Context // ends with the log-in
	cancel context.CancelFunc
	done   chan struct{}
	resp   *clientv3.AuthenticateResponse // set when done is closed
	err    error                          // set when done is closed

	// The lock of sharedAuth protects these:
	newest  time.Time // when the last attempt began
	running int       // number of attempts in progress
	waiting int       // number of callers
	ended   time.Time // zero until done is closed
	claimed bool      // a caller has received the token
}

// serves reports whether the token still serves callers that want one now.
func (l *sharedLogIn) serves() bool {
	age := time.Since(l.ended)
	return age <= newFor || !l.claimed && age <= unclaimedFor
}

// Authenticate logs in, or waits for a log-in in progress. If ctx ends first, the log-in goes on, and its token
// serves the next caller. Otherwise an etcd that needs longer than its callers wait would check one password after
// the other in vain.
func (a *sharedAuth) Authenticate(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	endpoints := a.endpoints()
	l, err := a.join(ctx, user{name, password, strings.Join(endpoints, ",")}, len(endpoints) > 1)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		if !a.leave(l) {
			return nil, ctx.Err()
		}
	}
	return l.resp, l.err
}

// join returns the log-in to wait for, and begins it if necessary. If it is hedged, and the last attempt has taken
// longer than its caller would wait, join begins a second one beside it.
func (a *sharedAuth) join(ctx context.Context, u user, hedged bool) (*sharedLogIn, error) {
	deadline, _ := ctx.Deadline()
	patience := max(time.Until(deadline), minStuckAfter)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errClosed
	}
	l := a.logIns[u]
	switch {
	case l == nil || !l.ended.IsZero() && !l.serves():
		l = &sharedLogIn{done: make(chan struct{})}
		l.ctx, l.cancel = context.WithCancel(a.ctx)
		a.logIns[u] = l
		a.beginAttempt(l, u)
	case !l.ended.IsZero():
		l.claimed = true
	case l.running < maxAttempts && time.Since(l.newest) >= patience && hedged:
		a.beginAttempt(l, u)
	}
	l.waiting++
	return l, nil
}

// leave is called for a caller that no longer waits. It reports whether the log-in has ended nevertheless.
func (a *sharedAuth) leave(l *sharedLogIn) (ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !l.ended.IsZero() {
		return true
	}
	l.waiting--
	return false
}

// beginAttempt begins an attempt on behalf of all callers of l. The lock is held.
func (a *sharedAuth) beginAttempt(l *sharedLogIn, u user) {
	l.newest = time.Now()
	l.running++
	a.attempts.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, attemptTimeout)
		defer cancel()
		resp, err := a.logIn(ctx, u.name, u.password)
		a.endAttempt(l, u, resp, err)
	})
}

// endAttempt records the result of an attempt. The first token ends the log-in, and so does the last failure.
func (a *sharedAuth) endAttempt(l *sharedLogIn, u user, resp *clientv3.AuthenticateResponse, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.running--
	if !l.ended.IsZero() || err != nil && l.running > 0 {
		return
	}
	l.resp, l.err, l.ended = resp, err, time.Now()
	if l.claimed = l.waiting > 0; err != nil {
		delete(a.logIns, u)
	}
	l.cancel()
	close(l.done)
}

// close waits until all attempts have ended, which a.ctx has canceled.
func (a *sharedAuth) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.attempts.Wait()
}

// closingWatcher is a Watcher that is closed with its client. The client's context has ended by then.
type closingWatcher struct {
	clientv3.Watcher
	auth *sharedAuth
}

// Close waits for the attempts to log in and closes the watches.
func (w closingWatcher) Close() error {
	w.auth.close()
	return w.Watcher.Close()
}
