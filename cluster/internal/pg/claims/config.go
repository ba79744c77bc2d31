package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Errors to test for with errors.Is.
var (
	// ErrBadConfig is matched by every error of Config.Validate.
	ErrBadConfig = errors.New("bad configuration of the session")
	// ErrPooled is matched by the error of a connection that is not to one server process all the time.
	ErrPooled = errors.New("a pooler gives each transaction another connection to PostgreSQL (as pgbouncer does with " +
		"pool_mode=transaction), so a session cannot be bound to one; connect to PostgreSQL itself, or to a pooler with " +
		"pool_mode=session")
	// ErrStandby is matched by the error of a server that takes no writes.
	ErrStandby = errors.New("the server takes no writes (a hot standby, or default_transaction_read_only is on); " +
		"connect to the primary, with target_session_attrs=read-write if the URL has several hosts")
)

// The limits of Config.Deadline.
const (
	MinDeadline     = 200 * time.Millisecond
	MaxDeadline     = time.Minute
	DefaultDeadline = 3 * time.Second
)

// Config configures a Keeper. Connect is required.
type Config struct {
	// Connect returns the configuration of the next connection. It is called for each, so that a password or a
	// certificate in a file may change.
	Connect func(ctx context.Context) (*pgx.ConnConfig, error)
	// Schema has the tables.
	Schema string
	// Deadline is the time after its last confirmed heartbeat for which a session may be relied on, and after which
	// others may take over.
	Deadline time.Duration
	// Owner names the process to people.
	Owner  string
	Logger hclog.Logger
	// OnLost is called when a session is lost, before it is given up for the others and before another one is opened.
	// Its context ends at the deadline of the lost session, from which on others may take over. It must return soon
	// after that. Close does not call it, and waits for a call that runs.
	OnLost func(ctx context.Context)
	// Clock is set by tests.
	Clock func() deadline.Instant
}

func (c Config) withDefaults() Config {
	c.Schema = cmp.Or(c.Schema, DefaultSchema)
	c.Deadline = cmp.Or(c.Deadline, DefaultDeadline)
	c.Logger = logqueue.New(c.Logger)
	if c.Clock == nil {
		c.Clock = deadline.Now
	}
	return c
}

// Validate returns an error that matches ErrBadConfig if the configuration is invalid.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case c.Connect == nil:
		return fmt.Errorf("%w: there is no database; set URL", ErrBadConfig)
	case d.Deadline < MinDeadline || d.Deadline > MaxDeadline:
		return fmt.Errorf("%w: Deadline is %v; give it from %v to %v, or leave it 0 for %v", ErrBadConfig, c.Deadline,
			MinDeadline, MaxDeadline, DefaultDeadline)
	case len(d.Schema) > 63:
		return fmt.Errorf("%w: Schema has %d bytes; give it at most 63", ErrBadConfig, len(d.Schema))
	case len(d.Owner) > 512:
		return fmt.Errorf("%w: Owner has %d bytes; give it at most 512", ErrBadConfig, len(d.Owner))
	}
	return nil
}

// beatEvery returns the time between two heartbeats.
func (c Config) beatEvery() time.Duration { return c.Deadline / 5 }

// pollEvery returns the time between two looks at the other sessions while a claim waits, if the shortest deadline of a
// session is that. It is a second at most, because a session with a shorter one may be opened. It grows with the number
// of the other sessions: each process reads them all.
func pollEvery(shortest time.Duration, others int) time.Duration {
	every := max(shortest/30, 10*time.Millisecond, min(time.Duration(others)*time.Millisecond, shortest/6))
	return min(every, time.Second)
}

// readPause returns the least time between two reads of queues that have so many claims. Each candidate in
// a queue reads it, and each change is notified to all of them.
func readPause(claims int) time.Duration {
	return max(5*time.Millisecond, time.Duration(claims)*2*time.Millisecond)
}

// restEvery returns the time between two looks at the other sessions while no claim waits.
func (c Config) restEvery() time.Duration { return c.Deadline / 3 }

// requestTimeout limits a request, in case its connection has broken silently.
func (c Config) requestTimeout() time.Duration {
	return min(max(c.Deadline, 2*time.Second), 15*time.Second)
}

// lockTimeout limits the wait for a row that another program has locked, so that the other names do not wait for it.
func (c Config) lockTimeout() time.Duration { return c.requestTimeout() / 4 }
