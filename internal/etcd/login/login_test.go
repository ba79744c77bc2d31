package login

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/goverse/goverse/internal/test/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startWithAuth starts an etcd with access control, and returns its address.
func startWithAuth(t *testing.T) string {
	t.Helper()
	server := etcdtest.Start(t)
	etcdtest.EnableAuth(t, etcdtest.Dial(t, server.Endpoint()), "secret")
	return server.Endpoint()
}

// rootClient returns a client, for the user root, of an etcd with access control.
func rootClient(t *testing.T) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{Endpoints: []string{startWithAuth(t)}, Username: "root", Password: "secret",
		Logger: zap.NewNop()}
	client, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	ReplaceAuth(client, cfg, nil)
	return client
}

func TestTokenThatEtcdForgotIsReplaced(t *testing.T) {
	client := rootClient(t)
	ctx := etcdtest.Context(t)
	_, err := client.Put(ctx, "k", "v")
	require.NoError(t, err)
	_, err = client.UserChangePassword(ctx, "root", "secret") // invalidates its tokens
	require.NoError(t, err)
	_, err = client.Put(ctx, "k", "v")
	require.NoError(t, err)
	_, err = client.Authenticate(ctx, "root", "wrong")
	require.ErrorIs(t, err, rpctypes.ErrAuthFailed)
}

// The client is given other addresses when etcd's members move.
func TestLogInGoesToThePresentEndpoints(t *testing.T) {
	client := rootClient(t)
	ctx := etcdtest.Context(t)
	before, err := client.Authenticate(ctx, "root", "secret")
	require.NoError(t, err)
	client.SetEndpoints(startWithAuth(t))
	after, err := client.Authenticate(ctx, "root", "secret")
	require.NoError(t, err)
	require.NotEqual(t, before.Header.ClusterId, after.Header.ClusterId)
	_, err = client.Put(ctx, "k", "v")
	require.NoError(t, err)
}

func TestPasswordThatChangesIsAskedForAtEachLogIn(t *testing.T) {
	client := rootClient(t)
	ctx := etcdtest.Context(t)
	password := "secret"
	client.Auth.(*sharedAuth).logIn = logInClient{endpoints: client.Endpoints,
		anonymous: clientv3.Config{Logger: zap.NewNop()}, credentials: func() (string, string, error) {
			if password == "" {
				return "", "", errors.New("unreadable")
			}
			return "root", password, nil
		}}.logIn
	_, err := client.Put(ctx, "k", "v")
	require.NoError(t, err)
	_, err = client.UserChangePassword(ctx, "root", "changed")
	require.NoError(t, err)
	password = ""
	_, err = client.Put(ctx, "k", "v")
	require.ErrorContains(t, err, "unreadable")
	password = "changed"
	_, err = client.Put(ctx, "k", "v")
	require.NoError(t, err)
}

func TestClientWithoutAUserIsLeftAlone(t *testing.T) {
	client := clientv3.NewCtxClient(context.Background())
	ReplaceAuth(client, clientv3.Config{}, nil)
	require.Nil(t, client.Auth)
}
