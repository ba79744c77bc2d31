package dev

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestValidateNamesTheFlag(t *testing.T) {
	t.Parallel()
	good := Config{Nodes: 3, TTL: 10 * time.Second, Command: []string{"x"}, Stdout: io.Discard}
	require.NoError(t, good.Validate())
	for flag, spoil := range map[string][]func(*Config){
		"--nodes": {func(c *Config) { c.Nodes = 0 }, func(c *Config) { c.Nodes = -1 }, func(c *Config) { c.Nodes = 51 }},
		"--ttl": {func(c *Config) { c.TTL = 0 }, func(c *Config) { c.TTL = -time.Second },
			func(c *Config) { c.TTL = 1500 * time.Millisecond },
			func(c *Config) { c.TTL = 25 * time.Hour }},
		"--for":               {func(c *Config) { c.For = -1 }},
		"--kill-leader-every": {func(c *Config) { c.KillEvery = -1 }},
		"Command":             {func(c *Config) { c.Command = nil }},
		"Stdout":              {func(c *Config) { c.Stdout = nil }},
	} {
		for _, f := range spoil {
			c := good
			f(&c)
			err := c.Validate()
			require.ErrorIs(t, err, ErrConfig, flag)
			require.ErrorContains(t, err, flag)
			require.NotContains(t, err.Error(), "\n")
		}
	}
}

func TestSweepLeavesTheLivingAndTheYoung(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	alive, err := makeTempDir(parent)
	require.NoError(t, err)
	dead, err := makeTempDir(parent)
	require.NoError(t, err)
	require.NoError(t, dead.lock.Close()) // like the end of its process
	require.NoError(t, os.Mkdir(filepath.Join(parent, "goverse-dev-of-somebody"), 0o700))

	sweepTempDirs(parent, time.Now().Add(-time.Minute))
	require.DirExists(t, dead.path, "it is young")
	sweepTempDirs(parent, time.Now().Add(time.Minute))
	require.NoDirExists(t, dead.path)
	require.DirExists(t, alive.path)
	require.DirExists(t, filepath.Join(parent, "goverse-dev-of-somebody"), "it has no lock of ours")
	require.NoError(t, alive.release())
	require.NoDirExists(t, alive.path)
}
