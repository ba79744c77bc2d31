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
	maxNodes = 50 // a process each
	prefix   = "/goverse"
)

// Config says what to run. Command, Stdout and the three of the first group are
// required; [Config.Validate] checks them.
type Config struct {
	// Nodes is how many node processes run, 1 to 50.
	Nodes int
	// TTL is the nodes' session TTL, in whole seconds.
	TTL time.Duration
	// Command starts a node: a program and its first arguments, for example
	// {"/usr/bin/goversed", "node"}. The flags --listen, --http, --etcd, --prefix,
	// --ttl and --log-level are added to it.
	Command []string

	// For is after how long Run ends by itself; 0: not.
	For time.Duration
	// KillEvery is how long after a kill the leader's process is killed again; 0:
	// never. A kill waits until all nodes are queued, so that each one counts.
	KillEvery time.Duration
	// Verbose shows the nodes' log from level info on, not only from warn, and etcd's
	// warnings, which otherwise only show when etcd fails.
	Verbose bool

	// Program is how a person calls the program, for the hints at the start.
	// Default: the first word of Command.
	Program string
	// Stdout gets the events, and the table if Terminal is set. A write that fails
	// ends Run.
	Stdout io.Writer
	// Terminal tells the size of the terminal that Stdout is, in columns and rows.
	// Nil: Stdout is none, and gets plain lines only.
	Terminal func() (columns, rows int)
	// Stderr gets the logs, line by line and each with the address of its node. Nil: they go to Stdout, between
	// the events.
	Stderr io.Writer
	// Hurry, once closed, cuts the stopping short: what still runs is killed.
	Hurry <-chan struct{}
}

// Validate reports what is wrong, in one line that names the flag and the remedy.
func (c Config) Validate() error {
	switch {
	case c.Nodes < 1 || c.Nodes > maxNodes:
		return bad("--nodes is %d: use 1 to %d, each is a process; 3 is a good number", c.Nodes, maxNodes)
	case c.TTL < time.Second || c.TTL > 24*time.Hour || c.TTL%time.Second != 0:
		return bad("--ttl is %v: use whole seconds from 1s to 24h; 10s is a good one", c.TTL)
	case c.For < 0:
		return bad("--for is %v: use a duration like 30s, or leave it out to run until Ctrl-C", c.For)
	case c.KillEvery < 0:
		return bad("--kill-leader-every is %v: use a duration like 5s, or leave it out to kill nobody", c.KillEvery)
	case len(c.Command) == 0 || c.Stdout == nil:
		return bad("Command and Stdout are needed: set both")
	}
	return nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}
