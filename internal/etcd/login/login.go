// Package login obtains the tokens of an etcd client that has a user and a password.
//
// etcd's own client logs in when it is created, before it opens a stream, and when etcd no longer recognizes
// its token. It sends the old token along, and etcd before 3.5 refuses that token before it checks the
// password. So once etcd has forgotten a client's token, because etcd restarted or the token was idle for a
// while, the client never obtains another one. Besides, each caller logs in on its own, while checking one
// password costs etcd a good part of a tenth of a second. With this package one log-in serves all callers that
// need one at that time. It uses a connection of its own, without a token, to the client's present endpoints.
//
// Not promised: it does not retry a log-in that failed; that is up to its callers.
package login

import (
	"context"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/callback"
)

// ReplaceAuth makes client log in this way. cfg is the configuration that the client was made with. credentials,
// unless nil, returns the user and password for each log-in. ReplaceAuth must be called before the client is used.
func ReplaceAuth(client *clientv3.Client, cfg clientv3.Config,
	credentials func() (username, password string, err error)) {
	if cfg.Username == "" {
		return
	}
	cfg.Username, cfg.Password = "", ""
	client.Auth = &sharedAuth{Auth: client.Auth, endpoints: client.Endpoints, anonymous: cfg, credentials: credentials}
}

// sharedAuth is etcd's Auth service with another way to log in.
type sharedAuth struct {
	clientv3.Auth
	endpoints   func() []string // the client's present ones
	anonymous   clientv3.Config // reaches the same etcd without a user
	credentials func() (username, password string, err error)

	mu      sync.Mutex
	current *loginAttempt
}

// loginAttempt is a log-in in progress.
type loginAttempt struct {
	done chan struct{}
	// Valid once done is closed:
	resp     *clientv3.AuthenticateResponse
	err      error
	canceled bool // canceled by the caller that made it
}

// Authenticate logs in, or waits for a log-in in progress. If the caller that made that log-in cancels it, the
// next waiting caller logs in.
func (a *sharedAuth) Authenticate(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	for {
		at, own := a.joinAttempt()
		if own {
			a.runAttempt(ctx, at, name, password)
			return at.resp, at.err
		}
		select {
		case <-at.done:
			if !at.canceled {
				return at.resp, at.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// runAttempt logs in on behalf of all callers that wait for the attempt.
func (a *sharedAuth) runAttempt(ctx context.Context, at *loginAttempt, name, password string) {
	at.canceled = true // until it ends
	defer func() {
		a.mu.Lock()
		a.current = nil
		a.mu.Unlock()
		close(at.done)
	}()
	at.resp, at.err = a.logIn(ctx, name, password)
	at.canceled = ctx.Err() != nil
}

// joinAttempt returns the attempt in progress, or a new one that the caller must make.
func (a *sharedAuth) joinAttempt() (at *loginAttempt, own bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		return a.current, false
	}
	a.current = &loginAttempt{done: make(chan struct{})}
	return a.current, true
}

// logIn logs in with the user and password that credentials returns. If etcd refuses them, it asks credentials
// once more, because the password may have been replaced meanwhile.
func (a *sharedAuth) logIn(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	cfg := a.anonymous
	cfg.Endpoints = a.endpoints()
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // nothing is sent anymore
	if a.credentials == nil {
		return client.Authenticate(ctx, name, password)
	}
	if name, password, err = AskCredentials(ctx, a.credentials); err != nil {
		return nil, err
	}
	resp, err := client.Authenticate(ctx, name, password)
	if !errors.Is(err, rpctypes.ErrAuthFailed) {
		return resp, err
	}
	if again, other, failed := AskCredentials(ctx, a.credentials); failed == nil && (again != name || other != password) {
		return client.Authenticate(ctx, again, other)
	}
	return resp, err
}

// AskCredentials calls credentials and returns the user and password, but waits no longer than ctx. If credentials
// panics or ends its goroutine, AskCredentials returns an error.
func AskCredentials(ctx context.Context, credentials func() (username, password string, err error)) (string, string,
	error) {
	type pair struct{ username, password string }
	said := make(chan pair, 1)
	if err := callback.RunWithin(ctx, func() error {
		username, password, err := credentials()
		said <- pair{username, password}
		return err
	}); err != nil {
		return "", "", err
	}
	p := <-said
	return p.username, p.password, nil
}
