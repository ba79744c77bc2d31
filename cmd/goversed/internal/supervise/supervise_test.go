//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/test/leaktest"
)

// Tests that run processes are in package integration.
func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// validConfig returns a Config with which etcd is never reached.
func validConfig() Config {
	return Config{Etcd: connect.Config{Address: "127.0.0.1:1", SettingNames: connect.FlagNames}, Lock: "it",
		Command: []string{"true"}, Guard: []string{"guard"}}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	require.NoError(t, validConfig().Validate())
	for _, c := range []struct {
		change func(*Config)
		is     error
	}{
		{func(c *Config) { c.Lock = "" }, nil},
		{func(c *Config) { c.Election = "too" }, nil},
		{func(c *Config) { c.Command = nil }, nil},
		{func(c *Config) { c.Stop = 6 * time.Second }, ErrBadStop},
		{func(c *Config) { c.Stop = -1 }, ErrBadStop},
		{func(c *Config) { c.TTL, c.Stop = 2*time.Second, 1100*time.Millisecond }, ErrBadStop},
		{func(c *Config) { c.Lock = string(make([]byte, 1000)) }, lifecycle.ErrBadName},
	} {
		cfg := validConfig()
		c.change(&cfg)
		err := cfg.Validate()
		require.Error(t, err)
		if c.is != nil {
			require.ErrorIs(t, err, c.is)
		}
		require.Equal(t, failed(err), Run(cfg, nil))
	}
}

func TestThereIsTimeToEndTheCommand(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, time.Hour} {
		cfg := Config{TTL: ttl}.withDefaults()
		// The time left just before a renewal, which happens every third of the TTL, less a hundredth.
		left := ttl*2/3 - ttl/50
		require.Greater(t, left, cfg.Stop+2*killMargin(ttl), ttl)
		require.Greater(t, left, ttl/2+2*killMargin(ttl), "the longest stop time, %v", ttl)
	}
}

func TestWaitIsEndedByASignal(t *testing.T) {
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGUSR1 // this process does not handle it
	signals <- syscall.SIGTERM
	err := Run(validConfig(), signals)
	require.Equal(t, 143, cli.ExitCode(err))
}

func TestExitCodesOfShells(t *testing.T) {
	t.Parallel()
	for code, path := range map[int]string{ExitNotFound: "/no/such/command", ExitRefused: "/"} {
		got, says := startFailure(path, exec.Command(path).Start())
		require.Equal(t, code, got)
		require.Contains(t, says, path)
	}
	require.Equal(t, 3, exitCode(3<<8))
	require.Equal(t, 137, exitCode(syscall.WaitStatus(syscall.SIGKILL)))
}

func TestGuardIsForRunOnly(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/fd/3"); err == nil {
		var st syscall.Stat_t
		require.NoError(t, syscall.Fstat(3, &st))
		if st.Mode&syscall.S_IFMT == syscall.S_IFIFO {
			t.Skip("this process has a pipe for its file 3")
		}
	}
	require.ErrorIs(t, Guard(func(int64) error { return nil }), ErrNoHolder)
}
