//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/logtest"
)

// A silent etcd is reported once, with the reason. A permanent error ends the attempts.
func TestWhyEtcdDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"", "u"} {
		var log, quiet logtest.Buffer
		cfg := validConfig()
		cfg.Etcd.Username, cfg.Etcd.Password = user, user
		cfg.Logger = log.Logger()
		cfg.Timeout = time.Second
		err := Run(cfg, nil)
		require.Equal(t, ExitFailed, cli.ExitCode(err))
		why := "etcd cannot be reached at 127.0.0.1:1: nothing listens there: check --etcd and that etcd runs there"
		require.ErrorContains(t, err, `lock "it" was not available within 1s: `+why)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), `[WARN]  etcd does not answer, retrying: at_most=`)
		require.Contains(t, log.String(), why)

		web := httptest.NewServer(http.NotFoundHandler())
		defer web.Close()
		cfg.Etcd.Address, cfg.Timeout = web.Listener.Addr().String(), 0
		cfg.Logger = quiet.Logger()
		err = Run(cfg, nil)
		require.Equal(t, ExitFailed, cli.ExitCode(err))
		require.ErrorIs(t, err, connect.ErrNotEtcd)
		require.Empty(t, quiet.String())
	}
}

func TestWhatEtcdRefusesIsExplained(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	r := &runner{cfg: Config{Lock: "it", Keys: keys, Etcd: connect.Config{SettingNames: connect.FlagNames}}.withDefaults()}
	for err, says := range map[error]string{
		rpctypes.ErrUserEmpty: "set --etcd-user (GOVERSE_ETCD_USER) and --etcd-password (GOVERSE_ETCD_PASSWORD) to those " +
			"of a user with READ and WRITE on all of /goverse/work/locks/",
		rpctypes.ErrPermissionDenied: "grant it READ and WRITE on all of /goverse/work/locks/",
	} {
		why := r.explainError(t.Context(), err)
		require.ErrorIs(t, why, err)
		require.ErrorIs(t, why, connect.ErrDenied)
		require.ErrorContains(t, why, says)
	}
	require.Equal(t, errBusy, r.explainError(t.Context(), errBusy))
}

func TestWhoIsAround(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	led := keys.Elections().EntryKey("a", 7, 1, state.EntryTraits{})
	owned := keys.Locks().EntryKey("a", 7, 1, state.EntryTraits{})
	shared := keys.Locks().EntryKey("a", 7, 1, state.EntryTraits{Shared: true})
	for name, c := range map[string]struct {
		cfg  Config
		env  []string
		want []string
	}{
		"nobody":                    {Config{Election: "a"}, nil, nil},
		"itself":                    {Config{Election: "a"}, []string{led}, []string{led}},
		"another election":          {Config{Election: "b"}, []string{led}, nil},
		"an election and a lock":    {Config{Lock: "a"}, []string{led}, nil},
		"a lock in between":         {Config{Election: "a"}, []string{led, owned}, []string{led}},
		"a lock":                    {Config{Lock: "a"}, []string{owned}, []string{owned}},
		"it shares":                 {Config{Lock: "a", Shared: true}, []string{shared}, nil},
		"it does not":               {Config{Lock: "a"}, []string{shared}, []string{shared}},
		"the other one does not":    {Config{Lock: "a", Shared: true}, []string{owned}, []string{owned}},
		"it does not wait":          {Config{Lock: "a", Try: true}, []string{owned}, nil},
		"what somebody else put in": {Config{Lock: "a"}, []string{"x"}, nil},
	} {
		c.cfg.Keys = keys
		c.cfg.Env = []string{keysEnv + "=overtaken", "OTHER=1", keysEnv + "=" + strings.Join(c.env, " ")}
		require.Equal(t, c.want, c.cfg.outerKeys(), name)
	}
}

// A surrounding process counts as long as it has its key, in this etcd.
func TestNestedAtEtcd(t *testing.T) {
	ctx, server, keys := startEtcd(t)
	for _, cfg := range []Config{{Lock: "it"}, {Election: "it"}} {
		cfg.Keys = keys
		key := cfg.claimQueues().EntryKey("it", 7, 1, state.EntryTraits{})
		cfg.Env = []string{keysEnv + "=" + key}
		r := &runner{cfg: cfg.withDefaults()}
		nested, err := r.askEtcd(ctx, server.Client())
		require.NoError(t, err)
		require.NoError(t, nested)
		_, err = server.Client().Put(ctx, key, "")
		require.NoError(t, err)
		nested, err = r.askEtcd(ctx, server.Client())
		require.NoError(t, err)
		require.ErrorIs(t, nested, errNested)
		r.cfg.Etcd.Address = server.Endpoint()
		_, err = r.reachEtcd(ctx)
		require.Equal(t, nested, err, "it lasts")
	}
}
