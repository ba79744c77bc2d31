package automation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state"
)

// Config configures an [Automation]. Name, Source and Execute are required.
type Config[I any] struct {
	// Name names the automation in logs, in the names of locks and effects, and in the source's records: 1 to 200
	// bytes of UTF-8 without NUL. It is the same in all processes.
	Name string
	// Source provides the items.
	Source Source[I]
	// Execute executes one item. Up to Concurrency goroutines call it. ctx ends with Run, with the lead, and when the
	// claim of the item is lost. Execute must then return soon.
	//
	// If it returns an error, the item is executed again; see MaxAttempts. An error that matches
	// processor.ErrPoison parks the item at once. An error that matches processor.ErrUnavailable does not count as
	// an attempt. A panic is an error.
	Execute func(ctx context.Context, item Item[I]) error
	// Concurrency is the number of items that this process executes at a time. Default 1.
	Concurrency int
	// LeaderLock lets only the leader execute items. It may be shared with others; see processor.Shared. If nil,
	// every process executes items.
	LeaderLock processor.LeaderLock
	// Once makes Execute an effect with the name Name/Key, which takes place at most once; see Effects.Once of
	// package cluster. An error of Execute then must mean that it had no effect. If it is unknown whether the effect
	// took place (the process died, or Execute panicked), the item is parked with an error that matches
	// once.ErrUnknown. An effect that took place is not executed again, so what it wrote in the source's transaction
	// is lost if that did not commit; write there only what may be missing. An item must be off the list before its
	// mark expires (cluster.Config.OnceRetention). Default: none.
	Once Effects
	// PollInterval is the pause before the source is asked again after it had no item that was due. It is an upper
	// limit if the source is a processor.Changer. Default 500 ms.
	PollInterval time.Duration
	// Backoff determines the pauses between the attempts of an item, and those after failures of the source.
	Backoff processor.Backoff
	// MaxAttempts limits the attempts before an item is parked. Default 10, which takes about a minute with the
	// default Backoff. A negative value means no limit.
	MaxAttempts int
	// OnPark is called when an item is parked, with the error of its last attempt; in the source's transaction if
	// there is one. If it fails, the item is not parked, and OnPark is called again after a pause. It may be called
	// more than once for an item. Default: none. The item is logged in any case.
	OnPark func(ctx context.Context, item Item[I], err error) error
	// CountInterval is the interval at which a source that is a Counter is asked for its counts. Default 10 s.
	CountInterval time.Duration
	// Logger gets one line per event that concerns an operator. Default: none.
	Logger hclog.Logger
}

// Effects runs effects at most once; Cluster.Effects returns one.
type Effects interface {
	// Once runs fn unless an effect of that name has taken place; see Effects.Once of package cluster.
	Once(ctx context.Context, name string, fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error)
}

const (
	// maxName and maxKey limit names and keys in bytes, so that Name/Key is a name of a lock and of an effect.
	maxName = 200
	maxKey  = 256
	// maxConcurrency limits the workers of one automation.
	maxConcurrency = 10_000
)

var (
	// ErrBadConfig is matched by the errors of Config.Validate and ListConfig.Validate, except those of a bad name,
	// which match leaderelection.ErrBadName.
	ErrBadConfig = errors.New("bad automation configuration")
	// ErrBadItem is returned for an item with a key that is not from 1 to 256 bytes of UTF-8 without NUL.
	ErrBadItem = errors.New("bad item")
)

func (c Config[I]) withDefaults() Config[I] {
	if c.LeaderLock == nil {
		c.LeaderLock = processor.LockFunc(func(ctx context.Context, fn func(context.Context, int64) error) error {
			return fn(ctx, 0)
		})
	}
	c.Concurrency = cmp.Or(c.Concurrency, 1)
	c.PollInterval = cmp.Or(c.PollInterval, 500*time.Millisecond)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 10)
	c.CountInterval = cmp.Or(c.CountInterval, 10*time.Second)
	c.Logger = logqueue.New(c.Logger)
	return c
}

// Validate returns an error if the configuration is invalid.
func (c Config[I]) Validate() error {
	if err := state.CheckName("automation", c.Name); err != nil {
		return err
	}
	if !validText(c.Name, maxName) {
		return fmt.Errorf("%w for the automation: %q: give up to %d bytes of UTF-8 without NUL", lifecycle.ErrBadName,
			c.Name, maxName)
	}
	bad := func(what string) error { return fmt.Errorf("%w: automation %q: %s", ErrBadConfig, c.Name, what) }
	switch {
	case c.Source == nil:
		return bad("Source is nil; give it one of package postgres, or NewList")
	case c.Execute == nil:
		return bad("Execute is nil; give it a function")
	case c.Concurrency < 0 || c.Concurrency > maxConcurrency:
		return bad(fmt.Sprintf("Concurrency is %d; give a number up to %d, or leave it 0 for 1", c.Concurrency,
			maxConcurrency))
	case c.PollInterval < 0 || c.CountInterval < 0:
		return bad("PollInterval or CountInterval is negative; leave it 0 for the default")
	}
	if err := c.Backoff.Validate(); err != nil {
		return fmt.Errorf("%w: automation %q: %w", ErrBadConfig, c.Name, err)
	}
	return nil
}

// validText reports whether all stores can store a text of at most limit bytes.
func validText(s string, limit int) bool {
	return s != "" && len(s) <= limit && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

func checkKey(key string) error {
	if !validText(key, maxKey) {
		return fmt.Errorf("%w: the key %.100q has %d bytes: give 1 to %d bytes of UTF-8 without NUL", ErrBadItem, key,
			len(key), maxKey)
	}
	return nil
}
