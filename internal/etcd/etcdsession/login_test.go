package etcdsession

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// lastingTTL is the TTL of sessions that a busy machine must not end.
const lastingTTL = 5 * time.Second

// guarded returns a client, for the user root, of an etcd with access control. It counts its log-ins.
func guarded(t *testing.T, endpoint string) (client *clientv3.Client, logins *atomic.Int64) {
	t.Helper()
	etcdtest.EnableAuth(t, etcdtest.Dial(t, endpoint), "secret")
	logins = &atomic.Int64{}
	count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		if method == "/etcdserverpb.Auth/Authenticate" {
			logins.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Username: "root", Password: "secret",
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client, logins
}

// etcd's client logs in before it opens a stream, so a stream for each renewal would be a log-in for each.
func TestRenewalsOfAUserAreNoLogIns(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client, logins := guarded(t, server.Endpoint())
	ctx := etcdtest.Context(t)
	var sessions []*Session
	for range 5 {
		s, err := Open(ctx, Config{Process: etcd.Process{Client: client}, TTL: lastingTTL})
		require.NoError(t, err)
		defer func() { _ = s.Close(ctx) }()
		sessions = append(sessions, s)
	}
	const rounds = 5
	for _, s := range sessions {
		for range rounds {
			last := s.RenewedAt()
			s.RequestRenewal()
			require.Eventually(t, func() bool { return s.RenewedAt().After(last) }, time.Minute, time.Millisecond)
		}
		require.NoError(t, s.Err())
	}
	// One log-in is for the client and one for its stream; there are more only if etcd was too slow for a
	// stream.
	require.Less(t, logins.Load(), int64(rounds*len(sessions)/4))

	// When etcd has forgotten all tokens, one more log-in follows, and no session is lost.
	before := logins.Load()
	_, err := client.UserChangePassword(ctx, "root", "secret")
	require.NoError(t, err)
	changed := time.Now()
	for _, s := range sessions {
		s.RequestRenewal()
		require.Eventually(t, func() bool { return s.RenewedAt().After(changed) }, time.Minute, 5*time.Millisecond)
		require.NoError(t, s.Err())
	}
	require.LessOrEqual(t, logins.Load()-before, int64(len(sessions)+2))
}

// etcd's access control is turned on while processes without a user run. They lose their sessions, report the
// reason and the remedy, and do not repeat a revocation that is refused.
func TestAccessControlIsTurnedOn(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	admin := etcdtest.Dial(t, server.Endpoint())
	var revocations atomic.Int64
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req,
			reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if method == "/etcdserverpb.Lease/LeaseRevoke" {
				revocations.Add(1)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	log, lost := &logtest.Buffer{}, make(chan *session.LostError, 1)
	k, err := NewKeeper(Config{Process: etcd.Process{Client: client, Logger: log.Logger()}, TTL: lastingTTL}, Hooks{
		OnLost:  func(_ *Session, why *session.LostError) { lost <- why },
		Explain: func(err error) error { return fmt.Errorf("give it a user: %w", err) }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	ended := make(chan error)
	go func() { ended <- k.Run(ctx) }()
	_, err = k.Wait(ctx, nil)
	require.NoError(t, err)

	etcdtest.EnableAuth(t, admin, "secret")
	require.Equal(t, session.ReasonPermission, (<-lost).Reason)
	log.Await(t, "could not open a session, trying again until it works: error=\"give it a user: ")
	require.LessOrEqual(t, revocations.Load(), int64(1))

	root, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Username: "root",
		Password: "secret", Logger: zap.NewNop()})
	require.NoError(t, err)
	defer root.Close()
	_, err = root.AuthDisable(ctx)
	require.NoError(t, err)
	_, err = k.Wait(ctx, nil)
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-ended)
}
