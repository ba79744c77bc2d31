//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/cli"
	"github.com/goverse/goverse/internal/state"
)

// That etcd does not answer is said once, with the reason; what lasts ends it.
func TestWhyEtcdDoesNotAnswer(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	passing, lasting := errors.New("it will come"), errors.New("it will not come")
	cfg := valid()
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	tries := 0
	cfg.Connect = func() (*clientv3.Client, error) { tries++; return nil, context.DeadlineExceeded }
	cfg.Why = func(_ context.Context, err error) error {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if tries < 2 {
			return passing
		}
		return lasting
	}
	cfg.Final = func(err error) bool { return errors.Is(err, lasting) }
	err := Run(cfg, nil)
	require.Equal(t, ExitFailed, cli.ExitCode(err))
	require.ErrorIs(t, err, lasting)
	require.Equal(t, 2, tries)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(),
		`[WARN]  etcd does not answer, trying on: check --etcd (GOVERSE_ETCD) and that etcd runs there: error="it will come"`)
}

func TestTimeoutSaysWhy(t *testing.T) {
	t.Parallel()
	for _, try := range []bool{false, true} {
		cfg := valid()
		cfg.Try, cfg.Timeout = try, 50*time.Millisecond
		require.ErrorContains(t, Run(cfg, nil), "etcd runs there (never)")
	}
}

func TestWhatEtcdRefusesIsExplained(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	r := &runner{cfg: Config{Lock: "it", Keys: keys}.withDefaults()}
	for err, says := range map[error]string{
		rpctypes.ErrUserEmpty:        "give --etcd-user (GOVERSE_ETCD_USER), and the password as GOVERSE_ETCD_PASSWORD",
		rpctypes.ErrPermissionDenied: "grant READ and WRITE on all of /goverse/work/locks/",
	} {
		why := r.away(t.Context(), err)
		require.ErrorIs(t, why, err)
		require.ErrorContains(t, why, says)
	}
	require.NoError(t, r.away(t.Context(), rpctypes.ErrNoLeader), "it is tried on")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBusy)
	require.Equal(t, errBusy, r.away(ctx, rpctypes.ErrUserEmpty))
}

func TestWhoIsAround(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	led := keys.Elections().Entry("a", 7, 1, state.Traits{})
	owned := keys.Locks().Entry("a", 7, 1, state.Traits{})
	shared := keys.Locks().Entry("a", 7, 1, state.Traits{Shared: true})
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
		require.Equal(t, c.want, c.cfg.around(), name)
	}
}

// Who is around counts while it has its key, and in this etcd.
func TestNestedAtEtcd(t *testing.T) {
	ctx, server, keys := startEtcd(t)
	for _, cfg := range []Config{{Lock: "it"}, {Election: "it"}} {
		cfg.Keys = keys
		key := cfg.queues().Entry("it", 7, 1, state.Traits{})
		cfg.Env = []string{keysEnv + "=" + key}
		r := &runner{cfg: cfg.withDefaults()}
		require.NoError(t, r.ask(ctx, server.Client(), requestTimeout))
		_, err := server.Client().Put(ctx, key, "")
		require.NoError(t, err)
		err = r.ask(ctx, server.Client(), requestTimeout)
		require.ErrorIs(t, err, errNested)
		require.Equal(t, err, r.away(ctx, err), "it lasts")
	}
}
