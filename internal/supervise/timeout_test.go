//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/cli"
)

func TestTimeoutWithoutEtcd(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Config){ // whether it is free is not known
		func(*Config) {},
		func(c *Config) { c.BusyCode = 9 },
		func(c *Config) { c.Try = true },
	} {
		cfg := valid() // whose Connect never works
		cfg.Timeout = 50 * time.Millisecond
		change(&cfg)
		err := Run(cfg, nil)
		require.Equal(t, ExitFailed, cli.ExitCode(err), err)
		require.ErrorContains(t, err, "within 50ms")
		require.ErrorContains(t, err, "etcd did not answer")
		require.ErrorContains(t, err, "check --etcd")
	}
}

// The time that it took to reach etcd is not had again to wait for the lock.
func TestTimeoutCountsOnce(t *testing.T) {
	ctx, server, keys := startEtcd(t)
	cfg := valid()
	cfg.Keys = keys
	cfg.GuardEnv = []string{testGuard + "=" + dies} // one would show that the lock was taken
	cfg.Timeout = 2 * time.Second                   // enough to get a lock that is free
	connect := make(chan struct{})
	time.AfterFunc(cfg.Timeout+50*time.Millisecond, func() { close(connect) })
	cfg.Connect = func() (*clientv3.Client, error) {
		<-connect
		return clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	}
	err := Run(cfg, nil)
	require.Equal(t, ExitFailed, cli.ExitCode(err), err)
	left, err := server.Client().Get(ctx, cfg.Keys.Locks().Root(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.Zero(t, left.Count)
}

// Whether others had the lock is asked of etcd: a session goes on for a while without it.
func TestWaitedForOthers(t *testing.T) {
	ctx, server, keys := startEtcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	require.NoError(t, err)
	cfg := Config{Lock: "it", Keys: keys, TTL: time.Hour, Timeout: time.Minute}
	r := &runner{cfg: cfg.withDefaults()}
	r.claim, err = newClaim(r.cfg, client)
	require.NoError(t, err)
	defer r.claim.close()
	_, err = r.claim.keeper.Wait(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, ExitBusy, cli.ExitCode(r.ended(errLate)))
	require.NoError(t, server.Close())
	require.NotNil(t, r.claim.keeper.Current())
	require.Equal(t, ExitFailed, cli.ExitCode(r.ended(errLate)))
}
