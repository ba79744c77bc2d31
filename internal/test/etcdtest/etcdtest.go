// Package etcdtest runs an etcd for one test. It is as fast as it can notice changes, and ends with the test.
// Tests that need faults use clustertest.
//
// The etcds of a test process run in one child process, which is built once for all test processes. So a test
// program need not contain etcd's server, which takes longer to link than most tests take.
package etcdtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/internal/test/etcdtest/etcdcontrol"
)

// patience is longer than a test needs on a busy machine.
const patience = time.Minute

// Context returns a context that ends with the test, or earlier if the test hangs. The time that the build of the
// etcd takes does not count.
func Context(t testing.TB) context.Context {
	t.Helper()
	_, _ = builtServer() // Start returns the error
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Config configures an etcd. The zero value means a new etcd at a free port, with the timing of tests.
type Config = etcdcontrol.Config

// TLS names the PEM files for client connections.
type TLS = etcdcontrol.TLS

// Server is a running etcd. Its methods are safe for concurrent use.
type Server struct {
	address  string // of the process that runs it
	number   int
	endpoint string
	client   *clientv3.Client

	closeOnce sync.Once
	closeErr  error
}

// Start starts an etcd and returns once it serves. The test may close it before its end.
func Start(t testing.TB) *Server {
	t.Helper()
	server, err := StartWith(Context(t), Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// StartWith starts an etcd and returns once it serves, or fails after a minute, besides the time that its build takes.
// Of ctx it uses the values only. The caller closes the server.
func StartWith(ctx context.Context, cfg Config) (*Server, error) {
	c, err := startChild()
	if err != nil {
		return nil, err
	}
	// ctx may have ended during the build.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	resp, err := etcdcontrol.Call(ctx, c.address, etcdcontrol.Request{Start: &cfg})
	if err != nil {
		return nil, err
	}
	s := &Server{address: c.address, number: resp.Number, endpoint: resp.Endpoint}
	if s.client, err = dial(s.endpoint); err != nil {
		return nil, errors.Join(err, s.closeServer())
	}
	return s, nil
}

// Endpoint returns the host:port at which clients connect.
func (s *Server) Endpoint() string { return s.endpoint }

// Client returns a client of this server, without TLS and without a user. It returns the same client each time.
// Close closes it; callers must not.
func (s *Server) Client() *clientv3.Client { return s.client }

// Close ends the server. When it returns, clients are disconnected, the port is free, and data in no folder of the
// caller's is gone. Further calls return the result of the first one.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { s.closeErr = errors.Join(s.client.Close(), s.closeServer()) })
	return s.closeErr
}

func (s *Server) closeServer() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := etcdcontrol.Call(ctx, s.address, etcdcontrol.Request{Close: s.number})
	return err
}

// Client returns the client of an etcd that has no other clients.
func Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return Start(t).Client()
}

// Dial returns a client with a connection of its own.
func Dial(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := dial(endpoint)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func dial(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
}

// EnableAuth turns etcd's access control on. root and the other users have the password, and each of the others
// has a role of the same name, without any permission. From then on etcd refuses a client without a user.
func EnableAuth(t testing.TB, client *clientv3.Client, password string, users ...string) {
	t.Helper()
	ctx := Context(t)
	for _, user := range append(users, "root") {
		if user != "root" {
			_, err := client.RoleAdd(ctx, user)
			require.NoError(t, err)
		}
		_, err := client.UserAdd(ctx, user, password)
		require.NoError(t, err)
		_, err = client.UserGrantRole(ctx, user, user)
		require.NoError(t, err)
	}
	_, err := client.AuthEnable(ctx)
	require.NoError(t, err)
}
