package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// requireOnly checks that err matches the wanted sentinel and none of its siblings.
func requireOnly(t *testing.T, err, want error) {
	t.Helper()
	for _, s := range []error{ErrRefused, ErrNotNode, ErrNoAnswer, ErrBadAddress, ErrOtherInstance} {
		if s == want {
			require.ErrorIs(t, err, s)
		} else {
			require.NotErrorIs(t, err, s)
		}
	}
	require.NotContains(t, err.Error(), "\n")
}

func TestIdentify(t *testing.T) {
	n := started(t)
	want := Identity{InstanceID: n.InstanceID(), AdvertiseAddress: n.AdvertiseAddress()}
	got, err := Identify(patient(t), n.AdvertiseAddress())
	require.NoError(t, err)
	require.Equal(t, want, got)

	n.MarkStopping()
	want.Stopping = true
	got, err = Identify(patient(t), n.AdvertiseAddress())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestIdentifyByName(t *testing.T) {
	n, err := NewNode(Config{AdvertiseAddress: "localhost:0"})
	require.NoError(t, err)
	require.NoError(t, n.Start())
	got, err := Identify(patient(t), n.AdvertiseAddress())
	require.NoError(t, err)
	require.Equal(t, n.InstanceID(), got.InstanceID)
	require.NoError(t, n.Close())
	_, err = Identify(patient(t), n.AdvertiseAddress())
	requireOnly(t, err, ErrRefused)
}

func TestIdentifyRefused(t *testing.T) {
	n := started(t)
	require.NoError(t, n.Close())
	began := time.Now()
	_, err := Identify(patient(t), n.AdvertiseAddress())
	requireOnly(t, err, ErrRefused)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Less(t, time.Since(began), 5*time.Second, "one attempt, no retries")
}

func TestIdentifySilence(t *testing.T) {
	n := local(t) // bound, but never started: it accepts connections and does not answer
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := Identify(ctx, n.AdvertiseAddress())
	requireOnly(t, err, ErrNoAnswer)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestIdentifyUnknownHost(t *testing.T) {
	_, err := Identify(patient(t), "no-such-host.invalid:1")
	requireOnly(t, err, ErrNoAnswer)
}

func TestIdentifyBadAddress(t *testing.T) {
	_, err := Identify(patient(t), "nowhere")
	requireOnly(t, err, ErrBadAddress)
}

func TestIdentifyConnectionDropped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accepted := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted++
			_ = c.Close()
		}
	})
	_, err = Identify(patient(t), l.Addr().String())
	requireOnly(t, err, ErrNoAnswer)
	require.NoError(t, l.Close())
	wg.Wait()
	require.Equal(t, 1, accepted, "one attempt")
}

// serveOther serves a gRPC server that is not a node, and returns its address.
func serveOther(t *testing.T, register func(*grpc.Server)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	register(s)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Stop(); wg.Wait() })
	return l.Addr().String()
}

type nameless struct{ nodepb.UnimplementedNodeServer }

func (nameless) Identify(context.Context, *nodepb.IdentifyRequest) (*nodepb.IdentifyResponse, error) {
	return &nodepb.IdentifyResponse{}, nil
}

func TestIdentifySomethingElse(t *testing.T) {
	_, err := Identify(patient(t), serveOther(t, func(*grpc.Server) {}))
	requireOnly(t, err, ErrNotNode)
	_, err = Identify(patient(t), serveOther(t, func(s *grpc.Server) { nodepb.RegisterNodeServer(s, nameless{}) }))
	requireOnly(t, err, ErrNotNode)

	web := httptest.NewServer(nil)
	defer web.Close()
	_, err = Identify(patient(t), web.Listener.Addr().String())
	requireOnly(t, err, ErrNoAnswer)
}

func TestIdentifyOverTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	cert := web.TLS.Certificates[0]
	n := local(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}})))
	require.NoError(t, n.Start())

	pool := x509.NewCertPool()
	pool.AddCert(web.Certificate())
	creds := credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "example.com"})
	got, err := Identify(patient(t), n.AdvertiseAddress(), grpc.WithTransportCredentials(creds))
	require.NoError(t, err)
	require.Equal(t, n.InstanceID(), got.InstanceID)

	_, err = Identify(patient(t), n.AdvertiseAddress())
	requireOnly(t, err, ErrNoAnswer)
}
