//go:build linux || darwin || freebsd || openbsd || dragonfly

package gated

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/cli"
)

func TestTimeoutWithoutEtcd(t *testing.T) {
	t.Parallel()
	for code, change := range map[int]func(*Config){
		ExitBusy:   func(*Config) {},
		9:          func(c *Config) { c.BusyCode = 9 },
		ExitFailed: func(c *Config) { c.Try = true }, // whether it is free is not known
	} {
		cfg := valid() // whose Connect never works
		cfg.Timeout = 50 * time.Millisecond
		change(&cfg)
		err := Run(cfg, nil)
		require.Equal(t, code, cli.ExitCode(err), err)
		require.ErrorContains(t, err, "within 50ms")
		require.ErrorContains(t, err, "etcd did not answer")
		require.ErrorContains(t, err, "check --etcd")
	}
}

// The time that it took to reach etcd is not had again to wait for the lock.
func TestTimeoutCountsOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	server, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	defer func() { _ = server.Close() }()
	cfg := valid()
	cfg.Keys, err = state.NewKeys("/goverse")
	require.NoError(t, err)
	cfg.GuardEnv = []string{testGuard + "=" + dies} // one would show that the lock was taken
	cfg.Timeout = 2 * time.Second                   // enough to get a lock that is free
	connect := make(chan struct{})
	time.AfterFunc(cfg.Timeout+50*time.Millisecond, func() { close(connect) })
	cfg.Connect = func() (*clientv3.Client, error) {
		<-connect
		return clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	}
	err = Run(cfg, nil)
	require.Equal(t, ExitBusy, cli.ExitCode(err), err)
	left, err := server.Client().Get(ctx, cfg.Keys.Locks().Root(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.Zero(t, left.Count)
}
