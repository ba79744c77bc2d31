package dev

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrConfig is wrapped by every error of [Config.Validate].
var ErrConfig = errors.New("bad setting")

const (
	maxNodes  = 50 // each is a process
	devPrefix = "/goverse"
)

// Config configures Run. Nodes, TTL, Command and Stdout are required; [Config.Validate] checks them.
type Config struct {
	// Nodes is the number of node processes, from 1 to 50.
	Nodes int
	// TTL is the nodes' session TTL, in whole seconds.
	TTL time.Duration
	// Command starts a node. It is a program and its first arguments, for example {"/usr/bin/goversed",
	// "node"}. Run appends the flags --listen, --http, --etcd, --prefix, --ttl and --log-level.
	Command []string

	// For limits how long Run runs. 0 means no limit.
	For time.Duration
	// KillEvery is the interval at which the leader's process is killed. 0 means never. A kill waits until all
	// nodes are queued, so that each one measures a regular succession.
	KillEvery time.Duration
	// EtcdListen is the host:port of etcd for clients. Default: a free port of 127.0.0.1.
	EtcdListen string
	// DefaultEtcd is the host:port that the user's commands take for etcd's without --etcd, "" for none.
	DefaultEtcd string
	// OtherPort makes Run take a free port instead of EtcdListen, and say so, if that is in use.
	OtherPort bool
	// Verbose shows the nodes' log from level info, not warn. It also shows etcd's warnings, which otherwise
	// appear only when etcd fails.
	Verbose bool

	// Program is the name by which the user calls the program, for the hints at the start. Default: the first
	// word of Command.
	Program string
	// Stdout receives the events, and the table if Terminal is set. A failed write ends Run.
	Stdout io.Writer
	// Terminal returns the size of the terminal at Stdout, in columns and rows. If it is nil, Stdout is not a
	// terminal and receives plain lines only.
	Terminal func() (columns, rows int)
	// Color makes the lines of a terminal colored.
	Color bool
	// Stderr receives the logs line by line, each with the address of its node. If it is nil, the logs are shown on
	// Stdout: with Verbose between the events, and otherwise only their last lines, after a failure.
	Stderr io.Writer
	// Hurry, once closed, cuts the stop short by killing the processes that still run.
	Hurry <-chan struct{}
}

// Validate returns an error of one line that names the flag and the remedy.
func (c Config) Validate() error {
	switch {
	case c.Nodes < 1 || c.Nodes > maxNodes:
		return configError("--nodes is %d: use 1 to %d, each is a process; 3 is a good number", c.Nodes, maxNodes)
	case c.TTL < time.Second || c.TTL > 24*time.Hour || c.TTL%time.Second != 0:
		return configError("--ttl is %v: use whole seconds from 1s to 24h; 10s is a good one", c.TTL)
	case c.For < 0:
		return configError("--for is %v: use a duration like 30s, or leave it out to run until Ctrl-C", c.For)
	case c.KillEvery < 0:
		return configError("--kill-leader-every is %v: use a duration like 5s, or leave it out to kill no process",
			c.KillEvery)
	case len(c.Command) == 0 || c.Stdout == nil:
		return configError("Command and Stdout are needed: set both")
	}
	return nil
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}
