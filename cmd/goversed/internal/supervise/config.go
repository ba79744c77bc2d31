package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state"
)

// Errors to test for with errors.Is.
var (
	// ErrUnsupported is returned on operating systems that lack what this package needs.
	ErrUnsupported = errors.New("goversed exec and lock work on Linux, macOS, FreeBSD, OpenBSD and DragonFly only: run " +
		"them there")
	// ErrNoCgroup is returned when no cgroup can be made. The error names the remedy.
	ErrNoCgroup = errors.New("no cgroup for the command")
	// ErrBadStop is returned when the stop time does not fit into the TTL, or the grace period is negative.
	ErrBadStop = errors.New("bad stop time")
)

// Config configures Run: the command, and the election or lock under which it runs. Etcd and Keys or Postgres,
// Command, Guard and one of Election and Lock are required.
type Config struct {
	// Postgres configures the session in PostgreSQL, in place of Etcd and Keys, if its URL is not empty. Its URL and
	// Schema count; the other fields come from those below.
	Postgres pgsession.Config
	// Etcd configures the connection to etcd. Run retries until it succeeds, or fails with an error that
	// retrying cannot cure. Its Logger defaults to the one below.
	Etcd connect.Config
	// Keys are the keys of the cluster.
	Keys state.Keys
	// Election or Lock names the election to lead or the lock to hold.
	Election, Lock string
	// Shared acquires the lock in shared mode, together with other shared holders.
	Shared bool
	// Try makes Run return immediately if the lock is not free. The store must answer within Timeout, or 5 s if
	// that is 0.
	Try bool
	// Timeout limits the wait for the lock, including the wait for the store, from the call of Run. 0 means no
	// limit. If the store does not answer at its end, Run fails, because it is not known whether another process
	// holds the lock. Finding that out, and why, can take another half second plus two seconds per address.
	Timeout time.Duration
	// BusyCode is the exit code if another process held the lock. Default ExitBusy.
	BusyCode int
	// TTL is the session's TTL in whole seconds, default 10 s, or its deadline in PostgreSQL, at least
	// MinPostgresTTL, default 3 s.
	TTL time.Duration
	// Stop is the time between SIGTERM and SIGKILL when the command must end, at most half of the TTL. Default
	// a quarter of the TTL.
	Stop time.Duration
	// GracePeriod is the time the command has after the first SIGINT or SIGTERM that was passed to it; then it
	// is killed. 0 means no limit.
	GracePeriod time.Duration
	// Cgroup runs the command in a cgroup of its own, so that no descendant escapes.
	Cgroup bool
	// Command is the program and its arguments, and Env its environment. Run adds variables that describe the
	// term or lock. A Run inside the command uses these to detect that it would wait for the outer one.
	Command, Env []string
	// Guard holds the arguments with which this program calls Guard, and GuardEnv is its environment.
	Guard, GuardEnv []string
	// Logger receives one line per event that matters to an operator. Nil disables logging.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	usual := 10 * time.Second
	if c.inPostgres() {
		usual = pgsession.DefaultDeadline
	}
	c.TTL = cmp.Or(c.TTL, usual)
	c.Stop = cmp.Or(c.Stop, c.TTL/4)
	if c.Try && c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	c.BusyCode = cmp.Or(c.BusyCode, ExitBusy)
	c.Logger = logqueue.New(c.Logger)
	if c.Etcd.Logger == nil {
		c.Etcd.Logger = c.Logger
	}
	return c
}

// Validate checks the configuration. Errors match lifecycle.ErrBadName and ErrBadStop.
func (c Config) Validate() error {
	kind, name := c.kindAndName()
	switch {
	case (c.Etcd.Address == "") == (c.Postgres.URL == ""), len(c.Command) == 0, len(c.Guard) == 0,
		(c.Election == "") == (c.Lock == ""):
		return errors.New("supervise: one of Etcd and Postgres, Guard, Command and one of Election and Lock are required")
	case c.inPostgres() && c.withDefaults().TTL < MinPostgresTTL:
		return fmt.Errorf("%w: a TTL of %v in PostgreSQL leaves no time to end the command: give at least %v", ErrBadStop,
			c.TTL, MinPostgresTTL)
	case c.GracePeriod < 0:
		return fmt.Errorf("%w: a grace period of %v: give more than 0, or none", ErrBadStop, c.GracePeriod)
	case c.Stop < 0, c.Stop > c.withDefaults().TTL/2:
		return fmt.Errorf("%w %v: it is to end before the deadline, so give at most half of the TTL, %v",
			ErrBadStop, c.Stop, c.withDefaults().TTL/2)
	}
	return state.CheckName(kind, name)
}

// MinPostgresTTL is the shortest TTL in PostgreSQL: less leaves too little time between a heartbeat and the end of the
// command.
const MinPostgresTTL = 500 * time.Millisecond

// inPostgres reports whether the election or lock is kept in PostgreSQL.
func (c Config) inPostgres() bool { return c.Postgres.URL != "" }

// describe names the election or lock in messages.
func (c Config) describe() string {
	kind, name := c.kindAndName()
	return fmt.Sprintf("%s %q", kind, name)
}

// kindAndName returns the word election or lock, and the name.
func (c Config) kindAndName() (kind, name string) {
	if c.Election != "" {
		return "election", c.Election
	}
	return "lock", c.Lock
}

// claimQueues returns the part of etcd's keys in which the election or lock lies.
func (c Config) claimQueues() state.Queues {
	if c.Election != "" {
		return c.Keys.Elections()
	}
	return c.Keys.Locks()
}

// ownerName names this process in the values that other candidates see.
func ownerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// killMargin returns the time before the deadline at which SIGKILL is sent.
func killMargin(ttl time.Duration) time.Duration {
	return min(max(ttl/20, 50*time.Millisecond), time.Second)
}
