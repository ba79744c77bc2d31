//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

func TestTimeoutWithoutEtcd(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Config){ // it is not known whether the lock is free
		func(*Config) {},
		func(c *Config) { c.BusyCode = 9 },
		func(c *Config) { c.Try = true },
	} {
		cfg := validConfig()
		cfg.Timeout = 50 * time.Millisecond
		change(&cfg)
		err := Run(cfg, nil)
		require.Equal(t, ExitFailed, cli.ExitCode(err), err)
		require.ErrorContains(t, err, "within 50ms")
		require.ErrorContains(t, err, "etcd cannot be reached")
		require.ErrorContains(t, err, "check --etcd and that etcd runs there")
	}
}

// The time that reaching etcd took is not available for the lock again.
func TestTimeoutCountsOnce(t *testing.T) {
	ctx, server, keys := startEtcd(t)
	cfg := validConfig()
	cfg.Keys = keys
	cfg.GuardEnv = []string{testGuard + "=" + guardDies} // a started guard would show that the lock was taken
	cfg.Timeout = 2 * time.Second                        // enough for a free lock
	relay, err := fault.NewRelay(strings.TrimPrefix(server.Endpoint(), "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	relay.Blackhole(fault.Both)
	healed := make(chan struct{})
	time.AfterFunc(cfg.Timeout+50*time.Millisecond, func() {
		defer close(healed)
		relay.Heal()
	})
	cfg.Etcd.Address = relay.Address()
	err = Run(cfg, nil)
	<-healed
	require.Equal(t, ExitFailed, cli.ExitCode(err), err)
	left, err := server.Client().Get(ctx, cfg.Keys.Locks().Root(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.Zero(t, left.Count)
}

// Etcd is asked whether others hold the lock, because a session survives for a while without etcd.
func TestWaitedForOthers(t *testing.T) {
	ctx, server, keys := startEtcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	require.NoError(t, err)
	cfg := Config{Lock: "it", Keys: keys, TTL: time.Hour, Timeout: time.Minute}
	r := &runner{cfg: cfg.withDefaults()}
	r.cfg.Etcd.Address = server.Endpoint()
	r.claim, err = newEtcdClaim(r.cfg, client)
	require.NoError(t, err)
	defer r.claim.close()
	_, err = r.claim.store.(*etcdStore).keeper.Wait(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, ExitBusy, cli.ExitCode(r.waitError(errWaitTimeout)))
	require.NoError(t, server.Close())
	require.NotNil(t, r.claim.store.session())
	err = r.waitError(errWaitTimeout)
	require.Equal(t, ExitFailed, cli.ExitCode(err))
	require.ErrorContains(t, err, "nothing listens there")
}
