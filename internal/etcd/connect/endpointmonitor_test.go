package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// forward listens and passes connections on to the address that target returns at the time.
func forward(t *testing.T, target func() string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serve(t, l, func(conn net.Conn) { relay(conn, target()) })
	return l.Addr().String()
}

// An advertised address is used while a given one does not answer, if it leads to the expected member. It is no
// longer used once all given ones answer again.
func TestAdvertisedAddresses(t *testing.T) {
	t.Parallel()
	other := etcdtest.Start(t).Endpoint()
	for name, c := range map[string]struct {
		leads func(own string) string // the target of the advertised address
		used  bool
	}{
		"its own":     {func(own string) string { return own }, true},
		"another one": {func(string) string { return other }, false},
		"nobody":      {func(string) string { return nowhere }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			own := ""
			advertised := forward(t, func() string { mu.Lock(); defer mu.Unlock(); return c.leads(own) })
			server, err := etcdtest.StartWith(t.Context(), etcdtest.Config{AdvertiseClient: advertised})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, server.Close()) })
			mu.Lock()
			own = server.Endpoint()
			mu.Unlock()
			given := []string{server.Endpoint(), nowhere}
			cfg := Config{Address: strings.Join(given, ",")}.withDefaults()
			client, err := cfg.Connect(etcdtest.Context(t))
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			_, err = client.Get(etcdtest.Context(t), "x")
			require.NoError(t, err)

			a := &endpointMonitor{cfg: cfg, client: client, configured: given}
			a.followMembers(etcdtest.Context(t), []string{nowhere}, time.Now())
			want := given
			if c.used {
				want = append(want[:2:2], "http://"+advertised)
			}
			for range 10 { // etcd is asked again if it took more than a second to answer
				if slices.Equal(want, client.Endpoints()) {
					break
				}
				a.followMembers(etcdtest.Context(t), []string{nowhere}, a.lastAsked.Add(membersSoon))
			}
			require.Equal(t, want, client.Endpoints())
			a.followMembers(etcdtest.Context(t), nil, time.Now())
			require.Equal(t, given, client.Endpoints())
		})
	}
}

// A closed client has no attendant anymore, because Close has waited for it.
func TestTheAttendantEndsWithItsClient(t *testing.T) {
	t.Parallel()
	client, err := Config{Address: etcdtest.Start(t).Endpoint()}.Connect(etcdtest.Context(t))
	require.NoError(t, err)
	watcher, ok := client.Watcher.(monitoredWatcher)
	require.True(t, ok)
	_ = client.Close() // its error only reports that its context was canceled
	select {
	case <-watcher.done:
	default:
		t.Fatal("it goes on")
	}
}

// The state of an address is logged once for each change.
func TestWhatIsSaidOfAddresses(t *testing.T) {
	t.Parallel()
	var log logtest.Buffer
	l := newConnTracker()
	a := &endpointMonitor{cfg: Config{Logger: log.Logger(), SettingNames: FlagNames}, tracker: l,
		logged:     map[string]loggedState{},
		configured: []string{"a:1", "b:1"}}
	now := time.Unix(1000, 0)
	look := func(after time.Duration) {
		now = now.Add(after)
		states := l.statesOf(a.configured, now)
		a.logChanges(states, awayAddresses(a.configured, states, now), now)
	}
	answers := func(address string, yes bool) {
		l.updateState(address, func(k *addressState) { k.openConns = map[bool]int{true: 1}[yes]; k.certificateErr = nil })
	}
	answers("a:1", true)
	for range 5 {
		look(time.Second)
	}
	require.Equal(t, 1, log.Count("\n"), log.String())
	require.Contains(t, log.String(), `others do: start that member again, or name another one in --etcd: endpoint=b:1 `+
		`answering="1 of 2"`)
	answers("a:1", false)
	look(time.Hour)
	require.Equal(t, 1, log.Count("\n"), "where none answers others say so: %s", log.String())
	answers("a:1", true)
	answers("b:1", true)
	look(time.Second)
	look(time.Second)
	require.Equal(t, 2, log.Count("\n"), log.String())
	require.Contains(t, log.String(), "an address of etcd answers again: endpoint=b:1")

	answers("a:1", false)
	l.recordFailure("a:1", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}})
	for range 31 {
		look(time.Second)
	}
	require.Equal(t, 4, log.Count("\n"), "at once, and again after half a minute: %s", log.String())
	require.Contains(t, log.String(), "no connection to etcd because of a certificate, retrying: error=\"etcd cannot be "+
		"reached at a:1: a certificate is refused: check --etcd-cacert, --etcd-cert and --etcd-key (tls: failed to verify "+
		"certificate: x509: certificate has expired or is not yet valid")
	l.recordFailure("a:1", errors.New("connection reset"))
	require.NoError(t, l.statesOf([]string{"a:1"}, now)[0].certificateErr, "it is another reason now")
}

// A connection uses the configuration of the moment, and counts once the other side has sent data.
func TestLinksFollowHandshakes(t *testing.T) {
	t.Parallel()
	plain := strings.TrimPrefix(etcdtest.Start(t).Endpoint(), "http://")
	certificate, authority := newCertificate(t)
	address := startTLS(t, plain, &tls.Config{Certificates: []tls.Certificate{certificate},
		ClientAuth: tls.RequireAnyClientCert})
	var mu sync.Mutex
	now := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	cfg := Config{Address: address, CurrentTLS: func() (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		return now, nil
	}}.withDefaults()
	l := newConnTracker()
	client, err := clientv3.New(cfg.clientConfig(etcdtest.Context(t), l))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	refused := func() error {
		client.ActiveConnection().Connect()
		return l.statesOf([]string{address}, time.Now())[0].certificateErr
	}
	require.Eventually(t, func() bool { return isUntrusted(refused()) }, time.Minute, time.Millisecond)
	mu.Lock()
	now = &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}
	mu.Unlock()
	require.Eventually(t, func() bool { return refusesCertificate(refused()) }, time.Minute, time.Millisecond,
		"etcd says that it wants a certificate, after the handshake of this side")
	require.False(t, l.anyConnected())
	mu.Lock()
	now = &tls.Config{RootCAs: authority, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	mu.Unlock()
	_, err = client.Get(etcdtest.Context(t), "x")
	require.NoError(t, err)
	require.True(t, l.anyConnected())
	require.NoError(t, refused())
	_ = client.Close()
	require.Eventually(t, func() bool { return !l.anyConnected() }, time.Minute, time.Millisecond)
}

// If the function for the present TLS configuration does not return, in whatever way, only that one connection
// fails. The next one is made.
func TestTheTLSOfTheMomentDoesNotReturn(t *testing.T) {
	t.Parallel()
	for how, leaves := range map[string]func(){"Goexit": runtime.Goexit, "at the disco": func() {
		panic("at the disco")
	}} {
		a := certtest.NewAuthority(t)
		f := certtest.NewFiles(t)
		f.Write(t, a.Issue(t, []string{"127.0.0.1"}))
		server, err := etcdtest.StartWith(t.Context(), etcdtest.Config{
			ClientTLS: etcdtest.TLS{CertFile: f.Cert, KeyFile: f.Key}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, server.Close()) })
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(a.PEM))
		var asked atomic.Int64
		cfg := Config{Address: server.Endpoint(), CurrentTLS: func() (*tls.Config, error) {
			if asked.Add(1) == 1 {
				leaves()
			}
			return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
		}}
		client, err := cfg.Connect(etcdtest.Context(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err = client.Get(ctx, "x")
		cancel()
		require.NoError(t, err, how)
		require.Greater(t, asked.Load(), int64(1))
	}
}
