package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/test/etcdtest"
)

// Servers that are certainly not etcd are distinguished from a slow etcd, and from a proxy before an etcd that
// is gone.
func TestWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(net.Conn)
		cause  cause
		step   time.Duration // it ends where the answer does not
	}{
		"HTTP/1":          {says("HTTP/1.0 505 HTTP Version Not Supported\r\n\r\n"), notEtcd, noTimeout},
		"HTTP/0.9":        {says("<!DOCTYPE HTML>\n<html>\n</html>\n"), notEtcd, noTimeout},
		"Redis":           {says("-ERR unknown command 'PRI', with args beginning with: \r\n"), notEtcd, noTimeout},
		"HTTP/2":          {says("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"), unknownCause, noTimeout},
		"half a greeting": {says("\x00\x00\x06"), unknownCause, 3 * time.Second},
		"a closed door":   {func(net.Conn) {}, unknownCause, noTimeout},
		"silence":         {says(""), silentServer, defaultStepTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serveTCP(t, c.answer)
			err := Config{Address: address, stepTimeout: c.step}.Explain(etcdtest.Context(t), context.DeadlineExceeded, "")
			require.Equal(t, c.cause, causeOf(t, err))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}

func causeOf(t *testing.T, err error) cause {
	t.Helper()
	var p *problem
	require.ErrorAs(t, err, &p)
	return p.cause
}

// etcd itself, which serves HTTP/1 at the same port, is never mistaken for another server.
func TestASlowEtcdIsEtcd(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	err := Config{Address: etcd.Endpoint(), stepTimeout: noTimeout}.Explain(etcdtest.Context(t),
		context.DeadlineExceeded, "")
	require.Equal(t, unknownCause, causeOf(t, err))
	require.EqualError(t, err, "etcd cannot be reached at "+etcd.Endpoint()+": check EtcdAddress and that etcd runs "+
		"there (context deadline exceeded)")
	require.False(t, IsPermanent(err))
}

// Of several addresses another one may be etcd's.
func TestSeveralAddresses(t *testing.T) {
	t.Parallel()
	web, closed, door := startWeb(t), nowhere, serveTCP(t, func(net.Conn) {})
	certificate, _ := newCertificate(t)
	stranger := "https://" + startTLS(t, nowhere, serverTLS(certificate))
	for name, c := range map[string]struct {
		etcd  string
		cause cause
		lasts bool
		at    string
	}{
		"a web server, nothing":         {web + ", " + closed, refusedConnection, false, closed},
		"nothing, a web server":         {closed + "," + web, refusedConnection, false, closed},
		"a web server, a closed door":   {web + "," + door, unknownCause, false, web + "," + door},
		"two web servers":               {web + "," + web, notEtcd, true, web},
		"a strange authority":           {stranger, badCertificate, true, stranger},
		"a strange authority, no etcd":  {stranger + "," + stranger, badCertificate, true, stranger},
		"a strange authority, nothing ": {stranger + "," + closed, refusedConnection, false, closed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Config{Address: c.etcd, stepTimeout: noTimeout}.Explain(etcdtest.Context(t), context.DeadlineExceeded, "")
			require.Equal(t, c.cause, causeOf(t, err), err)
			require.Equal(t, c.lasts, IsPermanent(err))
			require.ErrorContains(t, err, "at "+c.at)
		})
	}
	unimplemented := status.Error(codes.Unimplemented, "unknown service")
	require.True(t, IsPermanent(Config{Address: "a:1"}.Explain(t.Context(), unimplemented, "")))
	err := Config{Address: "a:1,b:1"}.Explain(t.Context(), unimplemented, "")
	require.ErrorIs(t, err, ErrNotEtcd)
	require.False(t, IsPermanent(err), "which of them answered so is not known")
}

func TestWhyNoConnectionWasMade(t *testing.T) {
	t.Parallel()
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	require.Equal(t, unknownName, causeOfDial(dial(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true})))
	require.Equal(t, unknownCause, causeOfDial(dial(&net.DNSError{Err: "timeout", Name: "x", IsTimeout: true})))
	require.Equal(t, refusedConnection, causeOfDial(dial(syscall.ECONNREFUSED)))
	require.Equal(t, unknownCause, causeOfDial(dial(syscall.EHOSTUNREACH)))
	err := Config{}.withDefaults().newProblem(unknownName, "x:1", dial(&net.DNSError{Err: "no such host", Name: "x"}))
	require.EqualError(t, err, "etcd cannot be reached at x:1: its name is unknown: check EtcdAddress and the name "+
		"service (dial tcp: lookup x: no such host)")
}

// Errors that are clear by themselves are explained without a look, and errors other than a failure to reach
// etcd are returned unchanged.
func TestExplain(t *testing.T) {
	t.Parallel()
	cfg := Config{Address: serveTCP(t, says(""))}
	explain := func(err error) error { return cfg.Explain(t.Context(), err, "READ on all") }
	require.NoError(t, explain(nil))
	for _, err := range []error{io.EOF, context.Canceled, rpctypes.ErrLeaseNotFound} {
		require.Equal(t, err, explain(err))
	}
	denied := explain(fmt.Errorf("grant: %w", rpctypes.ErrPermissionDenied))
	require.ErrorIs(t, denied, ErrDenied)
	require.Equal(t, denied, explain(denied))
	require.False(t, IsPermanent(explain(rpctypes.ErrInvalidAuthToken)), "the next attempt has another one")
	away := explain(rpctypes.ErrNoLeader)
	require.ErrorIs(t, away, rpctypes.ErrNoLeader)
	require.Equal(t, unknownCause, causeOf(t, away), "etcd answered, so nothing is looked at")
	require.Equal(t, silentServer, causeOf(t, explain(status.Error(codes.Unavailable, "connection error"))))

	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	require.Equal(t, silentServer, causeOf(t, cfg.Explain(ended, context.DeadlineExceeded, "")), "also after the deadline")
	off, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, unknownCause, causeOf(t, cfg.Explain(off, context.DeadlineExceeded, "")), "nobody waits for it")
}

// The answer ends the look.
func TestAskDoesNotWaitForItsLook(t *testing.T) {
	t.Parallel()
	looked := make(chan struct{})
	address := serveTCP(t, func(conn net.Conn) {
		close(looked)
		_, _ = io.Copy(io.Discard, conn)
	})
	cfg := Config{Address: address, stepTimeout: noTimeout}
	cut := false
	err := cfg.Ask(etcdtest.Context(t), "", func(context.Context) error {
		<-looked // the look is in progress
		cut = true
		return nil
	})
	require.NoError(t, err)
	require.True(t, cut)
}

func TestAskEndsWithWhatLasts(t *testing.T) {
	t.Parallel()
	cfg := Config{Address: startWeb(t), stepTimeout: noTimeout}
	err := cfg.Ask(etcdtest.Context(t), "", func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorIs(t, err, ErrNotEtcd)
	// A server that answers as etcd meanwhile is etcd.
	err = cfg.Ask(etcdtest.Context(t), "", func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	require.NoError(t, err)
}

func TestWords(t *testing.T) {
	t.Parallel()
	require.Equal(t, FieldNames, SettingNamesOf(t.Context()))
	require.Equal(t, FlagNames, SettingNamesOf(WithSettingNames(t.Context(), FlagNames)))
	for _, w := range []SettingNames{FieldNames, FlagNames, clientNames} {
		for why := unknownCause; why <= permissionMissing; why++ {
			text := (&problem{cause: why, address: "a:1", user: "u", err: io.EOF, names: w}).Error()
			require.NotContains(t, text, "%!")
			require.NotContains(t, text, "\n")
			require.False(t, strings.HasSuffix(text, ": "), text)
		}
	}
}

// says reads a greeting, answers with text, and reads on until the other side closes.
func says(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn)
	}
}

// Clocks are corrected and certificates replaced: neither error lasts.
func TestCertificatesThatWillBeOthers(t *testing.T) {
	t.Parallel()
	certificate, authority := newCertificate(t)
	before := time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)
	early := Config{Address: startTLS(t, nowhere, serverTLS(certificate)), stepTimeout: noTimeout,
		TLS: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12, Time: func() time.Time { return before }}}
	err := early.Explain(etcdtest.Context(t), context.DeadlineExceeded, "")
	require.Equal(t, badCertificate, causeOf(t, err), err)
	require.False(t, IsPermanent(err), "it is not valid yet: %v", err)

	replaced := serverTLS(certificate)
	replaced.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("no such key") }
	err = Config{Address: startTLS(t, nowhere, replaced), stepTimeout: noTimeout, TLS: &tls.Config{RootCAs: authority,
		MinVersion: tls.VersionTLS12}}.Explain(etcdtest.Context(t), context.DeadlineExceeded, "")
	require.Equal(t, unknownCause, causeOf(t, err), err)
	require.False(t, IsPermanent(err), err)
}

// A proxy that accepts and closes connections because its etcd is gone does not count as one that speaks plain
// text.
func TestConnectionThatIsCutOffIsNotPlain(t *testing.T) {
	t.Parallel()
	cfg := Config{Address: "https://" + serveTCP(t, func(net.Conn) {}), stepTimeout: noTimeout}
	err := cfg.Explain(etcdtest.Context(t), context.DeadlineExceeded, "")
	require.Equal(t, unknownCause, causeOf(t, err), err)
}
