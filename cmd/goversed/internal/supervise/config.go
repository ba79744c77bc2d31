package supervise

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state"
)

// The errors to test for with errors.Is.
var (
	// ErrUnsupported: this operating system lacks what it takes.
	ErrUnsupported = errors.New("goversed exec and lock work on Linux, macOS, FreeBSD, OpenBSD and DragonFly only: run " +
		"them there")
	// ErrNoCgroup: there is no cgroup to be had; it names the remedy.
	ErrNoCgroup = errors.New("no cgroup for the command")
	// ErrBadStop: the stop time does not fit into the TTL, or the grace period is negative.
	ErrBadStop = errors.New("bad stop time")
)

// Config is what is run, and while what is held. Etcd, Keys, one of Election and Lock,
// Command and Guard are required.
type Config struct {
	// Etcd is how etcd is reached. It is tried until that works, or is seen never to work. Its
	// Logger is the one below unless it has one.
	Etcd connect.Config
	// Keys are those of the cluster.
	Keys state.Keys
	// Election or Lock is the name of what is to be held.
	Election, Lock string
	// Shared shares the lock with others who share it.
	Shared bool
	// Try gives up at once where the lock is not free; etcd then has to answer within Timeout,
	// or 5 s.
	Try bool
	// Timeout bounds the wait for the lock, from the call of Run and with that for etcd; 0 is for
	// ever. Where etcd does not answer at its end, that is a failure: whether another holds the lock
	// is not known. To see that, and why, can take half a second and two per address more.
	Timeout time.Duration
	// BusyCode is the exit code where another held the lock. Default ExitBusy.
	BusyCode int
	// TTL is the session's: whole seconds. Default 10 s.
	TTL time.Duration
	// Stop is how long the command has between SIGTERM and SIGKILL when it must end: up to
	// half of the TTL. Default a quarter of it.
	Stop time.Duration
	// GracePeriod is how long the command has after the first SIGINT or SIGTERM that was passed to it;
	// then it is killed. Default: as long as it likes.
	GracePeriod time.Duration
	// Cgroup runs the command in a cgroup of its own, so that no descendant escapes.
	Cgroup bool
	// Command is the program and its arguments, Env its environment; what concerns the term or
	// lock is added to it. By what a Run around this one added it is seen that this one would wait
	// for that one.
	Command, Env []string
	// Guard are the arguments by which this program calls Guard, GuardEnv is its environment.
	Guard, GuardEnv []string
	// Logger gets one line per event an operator cares about. Default: none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.Stop == 0 {
		c.Stop = c.TTL / 4
	}
	if c.Try && c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.BusyCode == 0 {
		c.BusyCode = ExitBusy
	}
	c.Logger = logqueue.New(c.Logger)
	if c.Etcd.Logger == nil {
		c.Etcd.Logger = c.Logger
	}
	return c
}

// Validate reports what is wrong with the configuration; errors match lifecycle.ErrBadName and
// ErrBadStop.
func (c Config) Validate() error {
	kind, name := c.kind()
	switch {
	case c.Etcd.Address == "", len(c.Command) == 0, len(c.Guard) == 0, (c.Election == "") == (c.Lock == ""):
		return errors.New("supervise: Etcd, Guard, Command and one of Election and Lock are required")
	case c.GracePeriod < 0:
		return fmt.Errorf("%w: a grace period of %v: give more than 0, or none", ErrBadStop, c.GracePeriod)
	case c.Stop < 0, c.Stop > c.withDefaults().TTL/2:
		return fmt.Errorf("%w %v: it is to end before the deadline, so give at most half of the TTL, %v",
			ErrBadStop, c.Stop, c.withDefaults().TTL/2)
	}
	return state.CheckName(kind, name)
}

// what is held, for people.
func (c Config) what() string {
	kind, name := c.kind()
	return fmt.Sprintf("%s %q", kind, name)
}

// kind is whether it is an election or a lock, in a word, and its name.
func (c Config) kind() (kind, name string) {
	if c.Election != "" {
		return "election", c.Election
	}
	return "lock", c.Lock
}

// queues is where it lies in etcd.
func (c Config) queues() state.Queues {
	if c.Election != "" {
		return c.Keys.Elections()
	}
	return c.Keys.Locks()
}

// owner says who holds it, for people.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// margin is how long before the deadline SIGKILL is sent.
func margin(ttl time.Duration) time.Duration {
	return min(max(ttl/20, 50*time.Millisecond), time.Second)
}
