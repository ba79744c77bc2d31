package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/wait"
)

// anyKey returns a question with a time-out that no test reaches: every finding before that comes from
// examining the addresses.
func anyKey() Question {
	ask := func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Get(ctx, "/goverse", clientv3.WithCountOnly())
		return err
	}
	return Question{Ask: ask, Timeout: time.Hour, Needs: "READ on /goverse"}
}

// await returns the outcome of AwaitAnswer: its own end, or its first warning that etcd does not answer.
func await(t *testing.T, cfg Config) (warned string, err error) {
	t.Helper()
	log := &logtest.Buffer{}
	cfg.Logger, cfg.DialTimeout = log.Logger(), time.Hour
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	defer cancel()
	result := make(chan error, 1)
	go func() {
		client, err := cfg.AwaitAnswer(ctx, anyKey())
		if err == nil {
			err = client.Close()
		}
		result <- err
	}()
	seen := time.NewTicker(time.Millisecond)
	defer seen.Stop()
	for {
		select {
		case err = <-result:
			require.NoError(t, ctx.Err(), "the looks and the log-in are cut short, the time-outs are not waited for")
			return log.String(), err
		case <-seen.C:
			if strings.Contains(log.String(), "\n") {
				cancel()
				return log.String(), <-result
			}
		}
	}
}

// The same cause gives the same message, with and without a user, and long before any time-out.
func TestOneCauseOneMessage(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t).Endpoint()
	plain := strings.TrimPrefix(etcd, "http://")
	certificate, authority := newCertificate(t)
	trusting := &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}
	strange := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	overTLS := startTLS(t, plain, serverTLS(certificate))
	mutual := startTLS(t, plain, &tls.Config{Certificates: []tls.Certificate{certificate},
		ClientAuth: tls.RequireAnyClientCert})
	oldMutual := startTLS(t, plain, &tls.Config{Certificates: []tls.Certificate{certificate},
		ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12})
	closed, mute, web, secureWeb := nowhere, serveTCP(t, says("")), startWeb(t), startSecureWeb(t, certificate)
	const unreachable, runs = "etcd cannot be reached at ", "check --etcd and that etcd runs there"
	for name, c := range map[string]struct {
		etcd  string
		tls   *tls.Config
		is    error
		lasts bool
		text  string
	}{
		"nothing listens": {closed, nil, ErrUnreachable, false, unreachable + closed + ": nothing listens there: " + runs +
			" (dial tcp " + closed + ": connect: connection refused)"},
		"nothing listens, and TLS": {"https://" + closed, trusting, ErrUnreachable, false, unreachable + "https://" + closed +
			": nothing listens there: " + runs + " (dial tcp " + closed + ": connect: connection refused)"},
		"silence": {mute, nil, ErrUnreachable, false, unreachable + mute + ": it takes connections and says nothing, so " +
			"it is no etcd or one that stands still: " + runs},
		"silence to TLS": {mute, trusting, ErrUnreachable, false, unreachable + mute + ": it takes connections and says " +
			"nothing, so it is no etcd or one that stands still: " + runs},
		"TLS on one side": {overTLS, nil, ErrUnreachable, false, unreachable + overTLS + ": it speaks TLS, and this side " +
			"does not: write https:// in --etcd or set --etcd-cacert"},
		"TLS on the other": {plain, trusting, ErrUnreachable, false, unreachable + plain + ": it does not speak TLS, and " +
			"this side does: write http:// in --etcd and leave out --etcd-cacert, --etcd-cert and --etcd-key"},
		"another authority": {overTLS, strange, ErrUnreachable, true, unreachable + overTLS + ": a certificate is " +
			"refused: check --etcd-cacert, --etcd-cert and --etcd-key (tls: failed to verify certificate: x509: " +
			"certificate signed by unknown authority)"},
		"no certificate of ours": {mutual, trusting, ErrUnreachable, true, unreachable + mutual + ": a certificate is " +
			"refused: check --etcd-cacert, --etcd-cert and --etcd-key (remote error: tls: certificate required)"},
		"no certificate of ours, TLS 1.2": {oldMutual, trusting, ErrUnreachable, true, unreachable + oldMutual + ": a " +
			"certificate is refused: check --etcd-cacert, --etcd-cert and --etcd-key (remote error: tls: handshake failure)"},
		"a web server": {web, nil, ErrNotEtcd, true, "what answers at " + web + " is no etcd: set --etcd to etcd's client " +
			"address, usually port 2379"},
		"a web server over TLS": {secureWeb, trusting, ErrNotEtcd, true, "what answers at " + secureWeb + " is no etcd: " +
			"set --etcd to etcd's client address, usually port 2379"},
		"a strange web server": {secureWeb, strange, ErrUnreachable, true, unreachable + secureWeb + ": a certificate is " +
			"refused: check --etcd-cacert, --etcd-cert and --etcd-key (tls: failed to verify certificate: x509: " +
			"certificate signed by unknown authority)"},
		"etcd":          {etcd, nil, nil, false, ""},
		"etcd over TLS": {overTLS, trusting, nil, false, ""},
	} {
		for _, user := range []string{"", "u"} {
			t.Run(strings.TrimSpace(name+" "+user), func(t *testing.T) {
				t.Parallel()
				cfg := Config{Address: c.etcd, TLS: c.tls, Username: user, Password: user, SettingNames: FlagNames}
				if c.etcd != mute { // only silence is known by the end of a step
					cfg.stepTimeout = noTimeout
				}
				if c.is == nil { // a slow answer is no outage
					cfg.diagnoseAfter = noTimeout
				}
				warned, err := await(t, cfg)
				if c.is == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, c.is)
				require.EqualError(t, err, c.text)
				require.Equal(t, c.lasts, IsPermanent(err))
				require.Equal(t, c.lasts, warned == "", "what lasts ends it, the rest is tried on: %s", warned)
			})
		}
	}
}

// Connect, which waits for no answer, explains the causes in the same way.
func TestConnectSaysWhy(t *testing.T) {
	t.Parallel()
	closed := nowhere
	cfg := Config{Address: closed, DialTimeout: 50 * time.Millisecond, stepTimeout: noTimeout}
	client, err := cfg.Connect(t.Context())
	require.NoError(t, err, "without a user it does not connect yet")
	require.NoError(t, ignoreCanceled(client.Close()))
	cfg.Username, cfg.Password = "u", "p"
	_, err = cfg.Connect(t.Context())
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorContains(t, err, "at "+closed+": nothing listens there: check EtcdAddress and that etcd runs there")

	cfg.Address, cfg.DialTimeout = startWeb(t), time.Hour
	_, err = cfg.Connect(t.Context())
	require.ErrorIs(t, err, ErrNotEtcd)

	cfg.Address = serveTCP(t, says(""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = cfg.Connect(ctx)
	require.ErrorIs(t, err, context.Canceled, "a log-in ends with its context")

	unreadable := errors.New("unreadable")
	cfg.Credentials = func() (string, string, error) { return "", "", unreadable }
	_, err = cfg.Connect(t.Context())
	require.ErrorIs(t, err, ErrDenied)
	require.ErrorIs(t, err, unreadable)
	require.True(t, IsPermanent(err))
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func TestWhatEtcdRefusesAUser(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	client := server.Client()
	etcdtest.EnableAuth(t, client, "p", "u")
	for name, c := range map[string]struct {
		user, password string
		words          SettingNames
		cause          error
		text           string
	}{
		"no user": {"", "", FieldNames, rpctypes.ErrUserEmpty, "etcd refused the user: none was given; set Username and " +
			"Password to those of a user with READ on /goverse (etcdserver: user name is empty)"},
		"no user, flags": {"", "", FlagNames, rpctypes.ErrUserEmpty,
			"etcd refused the user: none was given; set --etcd-user " +
				"(GOVERSE_ETCD_USER) and --etcd-password (GOVERSE_ETCD_PASSWORD) to those of a user with READ on /goverse " +
				"(etcdserver: user name is empty)"},
		"a wrong password": {"u", "wrong", FieldNames, rpctypes.ErrAuthFailed,
			`etcd refused the user "u": check Username and ` +
				"Password (etcdserver: authentication failed, invalid user ID or password)"},
		"no right": {"u", "p", FieldNames, rpctypes.ErrPermissionDenied,
			`etcd refused the user "u": grant it READ on /goverse ` +
				"(etcdserver: permission denied)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			warned, err := await(t, Config{Address: server.Endpoint(), Username: c.user, Password: c.password,
				SettingNames: c.words, diagnoseAfter: noTimeout})
			require.Empty(t, warned)
			require.ErrorIs(t, err, ErrDenied)
			require.ErrorIs(t, err, c.cause)
			require.True(t, IsPermanent(err))
			require.EqualError(t, err, c.text)
		})
	}
}

// With a client within the process the test controls the clock.
func TestHowAwaitTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Buffer{}
		cfg := ForClient(clientv3.NewCtxClient(t.Context()), log.Logger())
		ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
		defer cancel()
		began := time.Now()
		var asked []time.Duration
		_, err := cfg.AwaitAnswer(ctx, Question{Timeout: 2 * time.Second, Ask: func(ctx context.Context,
			_ *clientv3.Client) error {
			if asked = append(asked, time.Since(began)); len(asked) == 1 {
				require.Empty(t, log.String())
				require.True(t, wait.For(ctx, 600*time.Millisecond))
				require.Equal(t, 1, strings.Count(log.String(), "\n"), "it is said after half a second")
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		require.Equal(t, 80*time.Second, time.Since(began))
		require.ErrorIs(t, err, ErrUnreachable)
		require.EqualError(t, err, "etcd cannot be reached through the Client: check the Client's endpoints and that etcd "+
			"runs there (context deadline exceeded)")
		ms := time.Millisecond
		for i, pause := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1000 * ms} {
			require.InEpsilon(t, pause, asked[i+1]-asked[i]-2*time.Second, 0.2, "after the time-out of try %d", i)
		}
		require.Equal(t, 3, strings.Count(log.String(), "\n"), "every half minute: %s", log.String())
		require.True(t, strings.HasPrefix(log.String(), "[WARN]  etcd does not answer, retrying: at_most=1m19.5s error=\""+
			"etcd cannot be reached through the Client: "), log.String())
	})
}

// A problem that is found when the time has run out is not retried: the error says it, and the log does not.
func TestOutageWhenTheTimeHasRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Buffer{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		said := Config{Logger: log.Logger()}.newOutageLog(ctx)
		<-ctx.Done()
		p := &problem{}
		said.logOutage(p)
		require.Empty(t, log.String())
		require.Equal(t, p, said.lastProblem)
		said.logRecovery()
		require.Empty(t, log.String())
	})
}

func TestAwaitThatIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Buffer{}
		given := clientv3.NewCtxClient(t.Context())
		tries := 0
		client, err := ForClient(given, log.Logger()).AwaitAnswer(t.Context(), Question{Timeout: 2 * time.Second,
			Ask: func(context.Context, *clientv3.Client) error {
				if tries++; tries == 3 {
					return nil
				}
				return rpctypes.ErrNoLeader
			}})
		require.NoError(t, err)
		require.Equal(t, given, client)
		require.Equal(t, "[WARN]  etcd does not answer, retrying: error=\"etcd cannot be reached through the Client: check "+
			"the Client's endpoints and that etcd runs there (etcdserver: no leader)\"\n[INFO]  etcd answers\n", log.String())
	})
}
