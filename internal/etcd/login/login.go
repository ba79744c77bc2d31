// Package login is how a client of etcd's with a user and a password gets its tokens.
//
// etcd's client logs in when it is made, before it opens a stream, and when etcd does not know its token
// any more. It sends the old token along, which etcd before 3.5 refuses before it looks at the password:
// a client whose token was forgotten, because etcd restarted or the token was not used for a while, then
// never gets another one. And each of its callers logs in by itself, while checking one password takes etcd
// a good part of a tenth of a second. Here one log-in serves all who want one at that time, over a
// connection of its own that has no token.
package login

import (
	"context"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/callback"
)

// Attach has client log in this way. cfg is what the client was made with; credentials, unless it is nil, is
// asked at each log-in for the user and password. It must be called before anybody uses the client.
func Attach(client *clientv3.Client, cfg clientv3.Config, credentials func() (username, password string, err error)) {
	if cfg.Username == "" {
		return
	}
	cfg.Username, cfg.Password = "", ""
	client.Auth = &auth{Auth: client.Auth, nobody: cfg, credentials: credentials}
}

// auth is etcd's service of that name, with another way to log in.
type auth struct {
	clientv3.Auth
	nobody      clientv3.Config // the same etcd, without a user
	credentials func() (username, password string, err error)

	mu      sync.Mutex
	current *attempt
}

// attempt is a log-in that is under way.
type attempt struct {
	done chan struct{}
	// When done:
	resp      *clientv3.AuthenticateResponse
	err       error
	calledOff bool // by who made it
}

// Authenticate logs in, or waits for a log-in that is under way. If that is called off with the context of
// the caller who makes it, the next one makes it.
func (a *auth) Authenticate(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	for {
		at, own := a.join()
		if own {
			a.make(ctx, at, name, password)
			return at.resp, at.err
		}
		select {
		case <-at.done:
			if !at.calledOff {
				return at.resp, at.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// make makes an attempt for all who wait for it.
func (a *auth) make(ctx context.Context, at *attempt, name, password string) {
	at.calledOff = true // unless it ends
	defer func() {
		a.mu.Lock()
		a.current = nil
		a.mu.Unlock()
		close(at.done)
	}()
	at.resp, at.err = a.logIn(ctx, name, password)
	at.calledOff = ctx.Err() != nil
}

// join is the attempt under way, or a new one of the caller's own.
func (a *auth) join() (at *attempt, own bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		return a.current, false
	}
	a.current = &attempt{done: make(chan struct{})}
	return a.current, true
}

// logIn logs in with what credentials says. Where etcd refuses that it asks once more: the password may have been
// replaced meanwhile.
func (a *auth) logIn(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	client, err := clientv3.New(a.nobody)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // nothing is sent any more
	if a.credentials == nil {
		return client.Authenticate(ctx, name, password)
	}
	if name, password, err = Ask(ctx, a.credentials); err != nil {
		return nil, err
	}
	resp, err := client.Authenticate(ctx, name, password)
	if !errors.Is(err, rpctypes.ErrAuthFailed) {
		return resp, err
	}
	if again, other, failed := Ask(ctx, a.credentials); failed == nil && (again != name || other != password) {
		return client.Authenticate(ctx, again, other)
	}
	return resp, err
}

// Ask asks for the user and password, and waits no longer than ctx. What panics, or leaves its goroutine, has failed.
func Ask(ctx context.Context, credentials func() (username, password string, err error)) (string, string, error) {
	type pair struct{ username, password string }
	said := make(chan pair, 1)
	if err := callback.Within(ctx, func() error {
		username, password, err := credentials()
		said <- pair{username, password}
		return err
	}); err != nil {
		return "", "", err
	}
	p := <-said
	return p.username, p.password, nil
}
