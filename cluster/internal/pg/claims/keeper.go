package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/wait"
)

// reopen are the pauses before a session is opened in place of a lost one.
var reopen = backoff.Policy{First: 10 * time.Millisecond, Last: time.Second}

// Keeper keeps a session of this process, and opens another one when it is lost. All methods are safe for concurrent
// use.
type Keeper struct {
	cfg   Config
	sql   statements
	tasks *wait.Group
	users *wait.Group // goroutines that hold claims and release them by themselves
	reads wait.Signal // queues are to be read

	mu      sync.Mutex
	current *Session      // nil between two sessions
	changed chan struct{} // closed and replaced when current changes
	stopped bool
	closing context.Context // of Close
	queues  map[string]*queue
	toRead  map[string]bool // queues that have changed
	left    []int64         // ended sessions of this process with rows that may stand
}

// Open makes the tables, unless they are there, and opens a session. It blocks until that is done, PostgreSQL refuses
// it, or ctx ends. Errors match ErrBadConfig, ErrPooled or ErrStandby, or are PostgreSQL's.
func Open(ctx context.Context, cfg Config) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	k := &Keeper{cfg: cfg, sql: statementsFor(cfg.Schema), tasks: wait.NewGroup(), users: wait.NewGroup(),
		changed: make(chan struct{}), reads: wait.NewSignal(), queues: map[string]*queue{}, toRead: map[string]bool{}}
	opened, err := k.open(ctx)
	if err != nil {
		k.tasks.Close(lifecycle.ErrStopped)
		return nil, err
	}
	k.setCurrent(opened.Session)
	k.tasks.Go(func(context.Context) { k.run(opened) })
	return k, nil
}

// opened is a session with its connections.
type opened struct {
	*Session
	commands, watcher *connection
}

// open opens a session on three connections.
func (k *Keeper) open(ctx context.Context) (_ *opened, err error) {
	var conns [3]*connection
	defer func() {
		if err != nil {
			err = fmt.Errorf("open a session in PostgreSQL: %w", pg.WithRemedy(err))
			for _, c := range conns {
				c.drop()
			}
		}
	}()
	for i := range conns {
		if conns[i], err = k.connect(ctx); err != nil {
			return nil, err
		}
		switch i {
		case 0: // first of all: other processes wait for it
			if err = k.leaveOld(ctx, conns[0]); err != nil && conns[0].IsClosed() {
				return nil, err
			}
			err = nil // others end them when they have been silent for long enough
		case 1:
			if err = probePooling(ctx, conns[0], conns[1]); err != nil {
				return nil, err
			}
			if err = CreateSchema(ctx, conns[1], k.cfg.Schema); err != nil {
				return nil, err
			}
		}
	}
	s, err := k.openSession(ctx, conns[0])
	if err != nil {
		return nil, err
	}
	return &opened{s, conns[1], conns[2]}, nil
}

// leaveOld gives up the sessions of this process that have ended, so that no other process waits for them. If conn is
// nil, it connects for that.
func (k *Keeper) leaveOld(ctx context.Context, conn *connection) (err error) {
	k.mu.Lock()
	left := slices.Clone(k.left)
	k.mu.Unlock()
	if conn == nil && len(left) > 0 {
		if conn, err = k.connect(ctx); err != nil {
			return err
		}
		defer conn.finish(time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.requestTimeout())
	defer cancel()
	for _, id := range left {
		if _, err := conn.Exec(ctx, k.sql.deleteSession, id); err != nil {
			return err
		}
		k.mu.Lock()
		k.left = slices.DeleteFunc(k.left, func(other int64) bool { return other == id })
		k.mu.Unlock()
		_, _ = conn.Exec(ctx, k.sql.settleLeft, id) // otherwise others do it
	}
	return nil
}

// run runs session after session until Close.
func (k *Keeper) run(o *opened) {
	for ctx := k.tasks.Context(); o != nil; {
		k.cfg.Logger.Info("session opened in PostgreSQL", "session", o.id, "deadline", k.cfg.Deadline.String())
		k.runSession(o)
		if !errors.Is(context.Cause(o.ctx), lifecycle.ErrStopped) {
			k.reportLoss(o.Session)
		}
		if ctx.Err() != nil {
			return
		}
		k.cfg.Logger.Warn("session lost, opening another one", "session", o.id,
			"error", logtext.OneLine(context.Cause(o.ctx)))
		o = k.reopen(ctx)
	}
}

// reportLoss calls OnLost for a session that was lost.
func (k *Keeper) reportLoss(s *Session) {
	if k.cfg.OnLost == nil {
		return
	}
	_, left := s.Renewal()
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	k.cfg.OnLost(ctx)
}

// EndSession ends a session of another process, by its number, as that process would: others need not wait for its
// deadline. It opens a connection for that, and blocks until PostgreSQL has confirmed or ctx ends.
func EndSession(ctx context.Context, cfg Config, id int64) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	k := &Keeper{cfg: cfg.withDefaults(), sql: statementsFor(cmp.Or(cfg.Schema, DefaultSchema)), left: []int64{id}}
	if err := k.leaveOld(ctx, nil); err != nil {
		return fmt.Errorf("end a session in PostgreSQL: %w", pg.WithRemedy(err))
	}
	return nil
}

// reopen opens a session and makes it the current one, again and again until it succeeds or ctx ends.
func (k *Keeper) reopen(ctx context.Context) *opened {
	for failures := 1; ; failures++ {
		o, err := k.open(ctx)
		if err == nil {
			k.setCurrent(o.Session)
			return o
		}
		if failures == 1 && ctx.Err() == nil {
			k.cfg.Logger.Warn("could not open a session, retrying", "error", logtext.OneLine(err))
		}
		if !wait.For(ctx, reopen.Delay(failures, rand.Float64())) {
			return nil
		}
	}
}

// runSession runs the current session until it has ended.
func (k *Keeper) runSession(o *opened) {
	var running sync.WaitGroup
	running.Go(o.keepAlive)
	running.Go(func() { o.sendRequests(o.commands) })
	running.Go(func() { o.watch(o.watcher) })
	<-o.ctx.Done()
	k.setCurrent(nil)
	running.Wait()
	o.endClaims()
	if errors.Is(context.Cause(o.ctx), lifecycle.ErrStopped) {
		_ = k.leaveOld(k.closingContext(), o.main) // Close tries again
		o.main.finish(time.Second)
	} else {
		o.main.drop()
	}
	close(o.finished)
}

// closingContext returns the context of Close.
func (k *Keeper) closingContext() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closing
}

// setCurrent makes a session the current one; nil for none.
func (k *Keeper) setCurrent(s *Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current != nil {
		k.left = append(k.left, k.current.id)
	}
	k.current = s
	if s != nil && k.stopped {
		s.cancel(lifecycle.ErrStopped)
	}
	close(k.changed)
	k.changed = make(chan struct{})
}

// Current returns the present session, or nil.
func (k *Keeper) Current() *Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Owner returns the name of this process.
func (k *Keeper) Owner() string { return k.cfg.Owner }

// SessionID returns the number of the present session, 0 if there is none.
func (k *Keeper) SessionID() int64 {
	if s := k.Current(); s != nil {
		return s.id
	}
	return 0
}

// Valid reports whether there is a session that may be relied on at this instant.
func (k *Keeper) Valid() bool {
	s := k.Current()
	return s != nil && s.Valid()
}

// await returns the present session, once there is one.
func (k *Keeper) await(ctx context.Context) (*Session, error) {
	for {
		k.mu.Lock()
		s, changed, stopped := k.current, k.changed, k.stopped
		k.mu.Unlock()
		switch {
		case stopped:
			return nil, lifecycle.ErrStopped
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case s != nil:
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// endClaims ends the claims of a session that has ended.
func (s *Session) endClaims() {
	why := context.Cause(s.ctx)
	s.mu.Lock()
	var ends []func()
	for _, c := range s.claims {
		ends = append(ends, c.endLocked(why))
		s.forgetLocked(c)
	}
	s.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// Go runs f, which holds claims, until its context ends: that of Close, which waits for f until its own context ends.
// Go reports false, and does not run f, once Close was called.
func (k *Keeper) Go(f func(ctx context.Context)) bool { return k.users.Go(f) }

// Context returns a context that ends with Close. Its cause is lifecycle.ErrStopped.
func (k *Keeper) Context() context.Context { return k.users.Context() }

// closeUsers ends the goroutines that hold claims. It blocks until that has ended, or ctx ends.
func (k *Keeper) closeUsers(ctx context.Context) {
	ended := make(chan struct{})
	if !k.tasks.Go(func(context.Context) {
		defer close(ended)
		k.users.Close(lifecycle.ErrStopped)
	}) {
		return // closed before
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// Close ends all claims with lifecycle.ErrStopped and gives the session up, so that others need not wait for its
// deadline. It blocks until PostgreSQL has confirmed that or has not answered for some seconds, or ctx ends; its error
// then says that it was not confirmed. Closing again is harmless.
func (k *Keeper) Close(ctx context.Context) error {
	k.closeUsers(ctx)
	k.mu.Lock()
	s, again := k.current, k.stopped
	if !again {
		k.stopped, k.closing = true, ctx
		close(k.changed)
		k.changed = make(chan struct{})
	}
	k.mu.Unlock()
	if s != nil {
		s.cancel(lifecycle.ErrStopped)
	}
	k.tasks.Close(lifecycle.ErrStopped)
	defer logqueue.Flush(context.Background(), k.cfg.Logger)
	if again {
		return nil
	}
	err := k.leaveOld(ctx, nil)
	if err != nil {
		return fmt.Errorf("give the session up: %w; others take over within %v", err, 2*k.cfg.Deadline)
	}
	return nil
}
