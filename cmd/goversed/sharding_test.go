package main

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
)

func TestShardFlags(t *testing.T) {
	t.Parallel()
	read := func(args ...string) cluster.Sharding {
		var f shardFlags
		fs := pflag.NewFlagSet("node", pflag.ContinueOnError)
		f.register(fs)
		require.NoError(t, fs.Parse(args))
		cfg, err := f.config()
		require.NoError(t, err)
		return cfg
	}
	// The defaults are the library's.
	require.Equal(t, cluster.Sharding{Shards: 8192, DrainTimeout: 10 * time.Second, Window: time.Second, MinMembers: 1},
		read())
	require.Equal(t, cluster.Sharding{Off: true, Shards: 64, DrainTimeout: time.Minute, Window: 2 * time.Second,
		MinMembers:     3,
		MovesPerMinute: 100, Exclude: map[string]string{"role": "gateway", "zone": "a"}},
		read("--sharding", "off", "--shards", "64", "--shard-drain-timeout", "1m", "--shard-window", "2s",
			"--shard-min-members", "3", "--shard-moves-per-minute", "100",
			"--shard-exclude", "role=gateway", "--shard-exclude", "zone=a"))
}
