package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
)

// shardFlags holds the flags of goversed node about shards as given.
type shardFlags struct {
	sharding     string
	shards       int
	drainTimeout time.Duration
	moves        int
	planner      plannerFlags
}

// plannerFlags holds the flags of the planner, shared with the command that previews its actions.
type plannerFlags struct {
	window     time.Duration
	minMembers int
	exclude    map[string]string
}

func (f *shardFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.sharding, "sharding", "on", "on: this node owns a share of the shards; off: it owns none")
	fs.IntVar(&f.shards, "shards", shard.DefaultCount,
		"number of shards in the cluster; the same for all its nodes; it cannot change later")
	fs.DurationVar(&f.drainTimeout, "shard-drain-timeout", 10*time.Second,
		"limit for the calls that still run in a shard when it moves to another node")
	fs.IntVar(&f.moves, "shard-moves-per-minute", 0,
		"limit for the shards that move per minute to rebalance the load (default: twice --shards)")
	f.planner.register(fs)
}

func (f *plannerFlags) register(fs *pflag.FlagSet) {
	fs.DurationVar(&f.window, "shard-window", time.Second,
		"time without a change of nodes after which shards move to rebalance the load")
	fs.IntVar(&f.minMembers, "shard-min-members", 1,
		"number of nodes that must be registered before any shard is assigned")
	fs.StringToStringVar(&f.exclude, "shard-exclude", nil,
		"`key=value`: nodes with this label get no shards; can be repeated")
	fs.Lookup("shard-exclude").DefValue = "" // the help would show []
}

// config checks the flags. It rejects zeros, because in the library they select the defaults, except for
// --shard-moves-per-minute, whose default is 0.
func (f *shardFlags) config() (cluster.Sharding, error) {
	switch {
	case f.sharding != "on" && f.sharding != "off":
		return cluster.Sharding{}, fmt.Errorf("--sharding %q: give on or off", f.sharding)
	case f.shards < 1 || f.shards > shard.MaxCount:
		return cluster.Sharding{}, fmt.Errorf("--shards %d: give a number from 1 to %d, or --sharding off",
			f.shards, shard.MaxCount)
	case f.drainTimeout <= 0:
		return cluster.Sharding{}, fmt.Errorf("--shard-drain-timeout %v: give more than 0; 10s is a good one", f.drainTimeout)
	case f.moves < 0:
		return cluster.Sharding{}, fmt.Errorf("--shard-moves-per-minute %d: give a number from 1 up, or 0 for "+
			"twice --shards", f.moves)
	}
	if err := f.planner.checkFlags(); err != nil {
		return cluster.Sharding{}, err
	}
	return cluster.Sharding{Off: f.sharding == "off", Shards: f.shards, DrainTimeout: f.drainTimeout,
		MovesPerMinute: f.moves,
		Window:         f.planner.window, MinMembers: f.planner.minMembers, Exclude: f.planner.exclude}, nil
}

func (f *plannerFlags) checkFlags() error {
	switch {
	case f.window <= 0:
		return fmt.Errorf("--shard-window %v: give more than 0; 1s is a good one", f.window)
	case f.minMembers < 1:
		return fmt.Errorf("--shard-min-members %d: give a number from 1 up", f.minMembers)
	}
	return nil
}
