package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/state"
)

// Config configures a [Processor]. Name, Source, Handler and Checkpoint are required.
type Config[E any] struct {
	// Name names the checkpoint, and the processor in logs and metrics: 1 to 512 bytes of UTF-8 without NUL.
	Name string
	// Source provides the events.
	Source Source[E]
	// Handler handles one event. One goroutine at a time calls it, in the source's order, except that a parked event
	// that an operator retries comes late. ctx ends when this
	// process no longer leads. The handler must then return soon, because the next leader waits for it.
	// TokenFrom(ctx) returns the fencing token.
	//
	// If the handler returns an error, the event is tried again; see MaxAttempts. An error that matches
	// ErrPoison parks the event at once. An error that matches ErrUnavailable does not count as an attempt. A
	// panic is an error.
	Handler func(ctx context.Context, event Event[E]) error
	// Checkpoint stores the position that the processor has reached.
	Checkpoint Checkpoint
	// LeaderLock decides when this process may handle events: Election, Lock or Shard of a cluster, or an
	// *elector.Elector over a row of PostgreSQL or another lease store, which several processors may share. If
	// nil, it always may; use that only for a processor that runs in a single process. A second process would
	// take over, and the two would take turns.
	LeaderLock LeaderLock
	// BatchSize is the number of events that are read, and stored as done, at a time. Default 100.
	BatchSize int
	// PollInterval is the pause before the source is read again after it had no events. It is an upper limit if
	// the source is a Changer. Default 500 ms.
	PollInterval time.Duration
	// Backoff determines the pauses after failures.
	Backoff Backoff
	// MaxAttempts limits the attempts before an event is parked. Default 10, which takes about a minute with
	// the default Backoff. A negative value means no limit: all later events wait.
	MaxAttempts int
	// OnPark is called when an event is parked, with the error of its last attempt. It is called in the
	// checkpoint's transaction if there is one. If it fails, the event is not parked, and OnPark is called
	// again after a pause. Like the handler, it may be called more than once for an event. Default: none. The
	// event is logged and recorded beside the checkpoint in any case. It is not called again if a retry that an
	// operator requested fails.
	OnPark func(ctx context.Context, event Event[E], err error) error
	// LagInterval is the interval at which a source that is a Lagger is asked for the lag. It is also asked
	// when there is nothing more to read. Default 10 s.
	LagInterval time.Duration
	// CheckInterval is the interval at which the leader publishes its report, with one small write beside the
	// checkpoint, and learns of operators' requests; see [Manager]. With each batch it learns of them, too.
	// Default 5 s.
	CheckInterval time.Duration
	// Node names this process in its reports, for example by Cluster.Node().AdvertiseAddress(). Default: the name of
	// the host and the number of the process.
	Node string
	// Logger gets one line per event that concerns an operator. Default: none.
	Logger hclog.Logger
}

// The errors by which a handler classifies a failure; wrap them.
var (
	// ErrPoison means that no further attempt can succeed. The event is parked at once.
	ErrPoison = errors.New("the event cannot be handled")
	// ErrUnavailable means that a system which the handler needs is unavailable, and that the event is not the
	// cause. The attempt does not count, so no event is parked because of it.
	ErrUnavailable = errors.New("what the handler needs is not available")
)

func (c Config[E]) withDefaults() Config[E] {
	if c.LeaderLock == nil {
		c.LeaderLock = LockFunc(leadAlone)
	}
	c.BatchSize = cmp.Or(c.BatchSize, 100)
	c.PollInterval = cmp.Or(c.PollInterval, 500*time.Millisecond)
	c.Backoff = c.Backoff.withDefaults()
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 10)
	c.LagInterval = cmp.Or(c.LagInterval, 10*time.Second)
	c.CheckInterval = cmp.Or(c.CheckInterval, 5*time.Second)
	c.Node = logtext.Bound(cmp.Or(c.Node, ownName()), maxReason)
	c.Logger = logqueue.New(c.Logger)
	return c
}

// ownName returns a name of this process.
func ownName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return host + "/" + strconv.Itoa(os.Getpid())
}

// CheckName returns an error that matches leaderelection.ErrBadName unless name can be a processor's.
func CheckName(name string) error {
	if err := state.CheckName("processor", name); err != nil {
		return err
	}
	if !utf8.ValidString(name) || strings.ContainsRune(name, 0) { // some checkpoints cannot store it
		return fmt.Errorf("%w for the processor: %q is no UTF-8 text without NUL; write it in hex, for example",
			lifecycle.ErrBadName, name)
	}
	return nil
}

// ErrBadConfig is matched by the errors of Config.Validate, except those of a bad name, which match
// leaderelection.ErrBadName.
var ErrBadConfig = errors.New("bad processor configuration")

// Validate returns an error if the configuration is invalid.
func (c Config[E]) Validate() error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	bad := func(what string) error { return fmt.Errorf("%w: processor %q: %s", ErrBadConfig, c.Name, what) }
	switch {
	case c.Source == nil:
		return bad("Source is nil; give it what events are read from")
	case c.Handler == nil:
		return bad("Handler is nil; give it a function")
	case c.Checkpoint == nil:
		return bad("Checkpoint is nil; give it Cluster.Checkpoints, one of package postgres, or a Memory")
	case c.BatchSize < 0:
		return bad("BatchSize is negative; leave it 0 for 100")
	case c.PollInterval < 0 || c.LagInterval < 0 || c.CheckInterval < 0:
		return bad("PollInterval, LagInterval or CheckInterval is negative; leave it 0 for the default")
	}
	if err := c.Backoff.Validate(); err != nil {
		return fmt.Errorf("processor %q: %w", c.Name, err)
	}
	return nil
}
