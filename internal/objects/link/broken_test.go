package link

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// codeOf returns the code of a reply's status.
func codeOf(t *testing.T, r *objectspb.Reply) codes.Code {
	t.Helper()
	s := status.New(codes.OK, "").Proto()
	require.NoError(t, proto.Unmarshal(r.Status, s))
	return codes.Code(s.Code)
}

func TestAServerThatIsKilled(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{})
	_, ended := began(t, t.Context(), p, s, calls)
	s.kill()
	err := <-ended
	require.ErrorIs(t, err, ErrLost)
	require.NotErrorIs(t, err, ErrNotSent)

	for range 3 { // also while gRPC pauses before it connects again
		_, err = p.Call(patient(t), s.address, to(nil))
		require.ErrorIs(t, err, ErrNotSent)
		require.ErrorContains(t, err, "refused")
		require.Equal(t, codes.Unavailable, status.Code(err))
	}

	serve(t, s.address, ServerConfig{Handler: handlerFunc(echo)})
	require.Eventually(t, func() bool {
		_, err := p.Call(patient(t), s.address, to(nil))
		return err == nil
	}, patience, 5*time.Millisecond, "a server at the address works again")
}

func TestANodeThatNeverWas(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	p := pool(t, Config{})
	for _, address := range []string{listener.Addr().String(), "no port", ""} {
		_, err := p.Call(patient(t), address, to(nil))
		require.ErrorIs(t, err, ErrNotSent, "%q", address)
	}
}

func TestALinkThatIsRefused(t *testing.T) {
	refuse := func(code codes.Code, early bool) grpc.ServerOption {
		return grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
			handler grpc.StreamHandler) error {
			if early {
				if err := stream.SendHeader(metadata.Pairs("early", "yes")); err != nil {
					return err
				}
				return handler(srv, stream)
			}
			return status.Error(code, "not from you")
		})
	}
	for name, c := range map[string]struct {
		prefix  string
		options []grpc.ServerOption
		code    codes.Code
	}{
		"prefix":                {"theirs", nil, codes.FailedPrecondition},
		"prefix, header before": {"theirs", []grpc.ServerOption{refuse(0, true)}, codes.FailedPrecondition},
		"unauthenticated":       {"ours", []grpc.ServerOption{refuse(codes.Unauthenticated, false)}, codes.Unauthenticated},
		"permission":            {"ours", []grpc.ServerOption{refuse(codes.PermissionDenied, false)}, codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "127.0.0.1:0", ServerConfig{Prefix: c.prefix, Handler: handlerFunc(echo)}, c.options...)
			p := pool(t, Config{Prefix: "ours"})
			for range 2 {
				_, err := p.Call(patient(t), s.address, to(nil))
				require.ErrorIs(t, err, ErrRefused)
				require.NotErrorIs(t, err, ErrNotSent)
				require.Equal(t, c.code, status.Code(err))
				if c.prefix == "theirs" {
					require.ErrorContains(t, err, `"ours"`)
					require.ErrorContains(t, err, `"theirs"`)
				}
			}
		})
	}
	t.Run("no such service", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server, ended := grpc.NewServer(), make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		_, err = pool(t, Config{}).Call(patient(t), listener.Addr().String(), to(nil))
		require.ErrorIs(t, err, ErrRefused)
		require.Equal(t, codes.Unimplemented, status.Code(err))
		server.Stop()
		require.NoError(t, <-ended)
	})
}

func TestAClosedServerAnswersWhatItHasRead(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{})
	c, ended := began(t, t.Context(), p, s, calls)
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for l := range s.links {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.draining != nil
		}
		return false
	}, patience, time.Millisecond)
	unread := make(chan error, 1)
	link := l(p, s)
	go func() {
		_, err := p.Call(context.Background(), s.address, to(nil))
		unread <- err
	}()
	require.Eventually(t, func() bool {
		link.mu.Lock()
		defer link.mu.Unlock()
		return link.begun == 2
	}, patience, time.Millisecond)
	c.Reply(nil)
	require.NoError(t, <-ended)
	require.ErrorIs(t, <-unread, ErrNotSent, "the server says that it has not read it")
	require.NoError(t, <-closed)
	_, err := p.Call(patient(t), s.address, to(nil))
	require.ErrorIs(t, err, ErrNotSent)
	require.NoError(t, s.Close(t.Context()))
}

func TestAServerIsClosedInTime(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{})
	c, ended := began(t, t.Context(), p, s, calls)
	notified := make(chan struct{})
	c.OnCancel(func() { close(notified) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, context.Canceled, s.Close(ctx))
	<-notified
	require.ErrorIs(t, <-ended, ErrLost)
}

func TestAPoolThatIsClosed(t *testing.T) {
	s := local(t, echo)
	p := NewPool(Config{})
	_, err := p.Call(patient(t), s.address, to(nil))
	require.NoError(t, err)
	p.Close()
	p.Close()
	_, err = p.Call(patient(t), s.address, to(nil))
	require.Equal(t, ErrClosed, err)
	_, err = p.Conn(s.address)
	require.Equal(t, ErrClosed, err)
}

func TestKeepSparesWhatIsInUse(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	other, idle := local(t, echo), local(t, echo)
	p := pool(t, Config{})
	for _, address := range []string{other.address, idle.address} {
		_, err := p.Call(patient(t), address, to(nil))
		require.NoError(t, err)
	}
	c, ended := began(t, t.Context(), p, s, calls)
	conn, err := p.Conn(other.address)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := objectspb.NewObjectsClient(conn).WatchRoutes(ctx, &objectspb.WatchRoutesRequest{})
	require.NoError(t, err)

	addresses := func() (all []string) {
		for address := range p.peers {
			all = append(all, address)
		}
		return all
	}
	none := func(string) bool { return false }
	p.Keep(none)
	require.ElementsMatch(t, []string{s.address, other.address}, addresses())
	c.Reply(nil)
	require.NoError(t, <-ended)
	cancel()
	_, err = stream.Recv()
	require.Equal(t, codes.Canceled, status.Code(err))
	require.Eventually(t, func() bool { return p.peers[other.address].streams.Load() == 0 }, patience, time.Millisecond)
	p.Keep(func(address string) bool { return address == s.address })
	require.Equal(t, []string{s.address}, addresses())
	p.Keep(none)
	require.Empty(t, addresses())
	_, err = objectspb.NewObjectsClient(conn).WatchRoutes(t.Context(), &objectspb.WatchRoutesRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err), "it was not sent: %v", err)
	err = conn.Invoke(t.Context(), "/none.Such/Call", &objectspb.Hello{}, &objectspb.Hello{})
	require.Equal(t, codes.Unavailable, status.Code(err), "it was not sent: %v", err)
	go func() { (<-calls).Reply(nil) }()
	_, err = p.Call(patient(t), s.address, to(nil))
	require.NoError(t, err, "it is opened again")
}

func TestStreamsOnAConnectionAreCounted(t *testing.T) {
	s, p := local(t, echo), pool(t, Config{})
	conn, err := p.Conn(s.address)
	require.NoError(t, err)
	count := &p.peers[s.address].streams
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := objectspb.NewObjectsClient(conn).WatchRoutes(ctx, &objectspb.WatchRoutesRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 1, count.Load())
	cancel()
	_, err = stream.Recv()
	require.Equal(t, codes.Canceled, status.Code(err))
	require.Eventually(t, func() bool { return count.Load() == 0 }, patience, time.Millisecond)
	_, err = objectspb.NewObjectsClient(conn).WatchRoutes(ctx, &objectspb.WatchRoutesRequest{})
	require.Error(t, err)
	require.Error(t, conn.Invoke(t.Context(), "/none.Such/Call", &objectspb.Hello{}, &objectspb.Hello{}))
	require.Zero(t, count.Load())
}

func TestConcurrentCallsOfALinkThatBreaksAllEnd(t *testing.T) {
	s, p := local(t, echo), pool(t, Config{})
	var ok, failed atomic.Int64
	ended := make(chan struct{})
	for range 32 {
		go func() {
			defer func() { ended <- struct{}{} }()
			for {
				_, err := p.Call(context.Background(), s.address, to(nil))
				switch {
				case err == nil:
					ok.Add(1)
				case errors.Is(err, ErrLost) || errors.Is(err, ErrNotSent):
					failed.Add(1)
					return
				default:
					t.Error(err)
					return
				}
			}
		}()
	}
	require.Eventually(t, func() bool { return ok.Load() > 1000 }, patience, time.Millisecond)
	s.kill()
	for range 32 {
		<-ended
	}
	require.EqualValues(t, 32, failed.Load())
}
