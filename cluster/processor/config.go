package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state"
)

// Config is what a processor needs. Name, Source, Handler and Checkpoint are required.
type Config[E any] struct {
	// Name is the checkpoint's, and the processor's in logs and metrics: UTF-8 without NUL, from
	// 1 to 512 bytes.
	Name string
	// Source is what events are read from.
	Source Source[E]
	// Handler handles one event. It is called by one goroutine at a time, in the source's order. ctx ends when
	// this process no longer leads; the handler must return soon after, for the next leader waits for it;
	// TokenFrom(ctx) is the fencing token. An error has the event tried again, see MaxAttempts; one that matches
	// ErrPoison parks it at once, one that matches ErrUnavailable does not count. A panic is an error.
	Handler func(ctx context.Context, event Event[E]) error
	// Checkpoint keeps how far the processor has come.
	Checkpoint Checkpoint
	// LeaderLock says when this process may process. Nil: at all times; this is for a processor
	// that runs in one process alone. A second one then takes over, and they take turns.
	LeaderLock LeaderLock
	// BatchSize is how many events are read, and stored as done, at a time. Default 100.
	BatchSize int
	// PollInterval is how long to wait when there is nothing to read, at most if the source is a
	// Changer. Default 500 ms.
	PollInterval time.Duration
	// Backoff is how long to wait after a failure.
	Backoff Backoff
	// MaxAttempts is how often an event is tried before it is parked. Default 10, which with the
	// default Backoff takes about a minute; negative: forever, and all behind it waits.
	MaxAttempts int
	// OnPark is called when an event is given up, with what it failed with last; in the
	// checkpoint's transaction if it has one. If it fails, the event is not parked, and OnPark is
	// called again after a while. It may be called again for the same event where the handler
	// may. Default: none; the event is logged, and kept beside the checkpoint, either way.
	OnPark func(ctx context.Context, event Event[E], err error) error
	// LagInterval is how often a source that is a Lagger is asked, beside when there is nothing more
	// to read. Default 10 s.
	LagInterval time.Duration
	// CheckInterval is how often a processor that finds nothing to read looks whether its checkpoint
	// was rewound, with one small write; one that has events notices with the next. Default 10 s.
	CheckInterval time.Duration
	// Logger gets one line per event an operator cares about. Default: none.
	Logger hclog.Logger
}

// The errors by which a handler says more than that it failed: wrap them.
var (
	// ErrPoison: no further attempt will do better; the event is parked at once.
	ErrPoison = errors.New("the event cannot be handled")
	// ErrUnavailable: it is not the event's fault: what the handler needs is away. The attempt
	// does not count, so nothing is parked for it.
	ErrUnavailable = errors.New("what the handler needs is not available")
)

func (c Config[E]) withDefaults() Config[E] {
	if c.LeaderLock == nil {
		c.LeaderLock = LockFunc(alone)
	}
	if c.BatchSize == 0 {
		c.BatchSize = 100
	}
	if c.PollInterval == 0 {
		c.PollInterval = 500 * time.Millisecond
	}
	c.Backoff = c.Backoff.withDefaults()
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 10
	}
	if c.LagInterval == 0 {
		c.LagInterval = 10 * time.Second
	}
	if c.CheckInterval == 0 {
		c.CheckInterval = 10 * time.Second
	}
	c.Logger = logqueue.New(c.Logger)
	return c
}

// ErrBadConfig is matched by the errors of Config.Validate, except for a bad name:
// election.ErrBadName.
var ErrBadConfig = errors.New("bad processor configuration")

// Validate reports what is wrong with the configuration.
func (c Config[E]) Validate() error {
	if err := state.CheckName("processor", c.Name); err != nil {
		return err
	}
	if !utf8.ValidString(c.Name) || strings.ContainsRune(c.Name, 0) { // not every checkpoint can keep it
		return fmt.Errorf("%w for the processor: %q is no UTF-8 text without NUL; write it in hex, for example",
			lifecycle.ErrBadName, c.Name)
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
	return c.Backoff.validate(bad)
}
