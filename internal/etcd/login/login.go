// Package login obtains the tokens of an etcd client that has a user and a password.
//
// etcd's own client logs in when it is created, before it opens a stream, and when etcd no longer recognizes
// its token. It sends the old token along, and etcd before 3.5 refuses that token before it checks the
// password. So once etcd has forgotten a client's token, because etcd restarted or the token was idle for a
// while, the client never obtains another one. Besides, each caller logs in on its own, while checking one
// password costs etcd a good part of a tenth of a second, and seconds if etcd is short of processor time. With this
// package one log-in serves all callers that need one at that time. It goes on if they stop waiting, for ten seconds
// at most, and then serves the next caller. A new token also serves those that ask within half a second. A log-in uses
// a connection of its own, without a token, to the client's present endpoints.
//
// Not promised: it does not retry a log-in that failed; that is up to its callers.
package login

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/callback"
)

// ReplaceAuth makes client log in this way. cfg is the configuration that the client was made with. credentials,
// unless nil, returns the user and password for each log-in. ReplaceAuth must be called before the client is used.
// The client's Close then waits until log-ins in progress have been canceled.
func ReplaceAuth(client *clientv3.Client, cfg clientv3.Config,
	credentials func() (username, password string, err error)) {
	if cfg.Username == "" {
		return
	}
	cfg.Username, cfg.Password = "", ""
	l := logInClient{endpoints: client.Endpoints, anonymous: cfg, credentials: credentials}
	// A member of etcd that is cut off from the others refuses the log-in instead of letting it wait.
	auth := &sharedAuth{Auth: client.Auth, ctx: clientv3.WithRequireLeader(client.Ctx()),
		endpoints: client.Endpoints, logIn: l.logIn, logIns: map[user]*sharedLogIn{}}
	client.Auth, client.Watcher = auth, closingWatcher{client.Watcher, auth}
}

// logInClient logs in over connections of its own.
type logInClient struct {
	endpoints   func() []string // the client's present ones
	anonymous   clientv3.Config // reaches the same etcd without a user
	credentials func() (username, password string, err error)
}

// logIn logs in with the user and password that credentials returns. If etcd refuses them, it asks credentials
// once more, because the password may have been replaced meanwhile.
func (l logInClient) logIn(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	cfg := l.anonymous
	cfg.Endpoints = l.endpoints()
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // nothing is sent anymore
	if l.credentials == nil {
		return client.Authenticate(ctx, name, password)
	}
	if name, password, err = AskCredentials(ctx, l.credentials); err != nil {
		return nil, err
	}
	resp, err := client.Authenticate(ctx, name, password)
	if !errors.Is(err, rpctypes.ErrAuthFailed) {
		return resp, err
	}
	if again, other, failed := AskCredentials(ctx, l.credentials); failed == nil && (again != name || other != password) {
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
