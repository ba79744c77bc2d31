// Package effects runs the effects of package once, and keeps their marks in etcd.
//
// Not promised: more than package once does.
package effects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Config is what effects need. Queues and Keys are required.
type Config struct {
	// Queues are those at Keys.Effects. The effects are live while their engine runs, and their marks are written
	// with its client.
	Queues *leasequeue.Queues
	// Keys is where marks lie.
	Keys state.Keys
	// Owner is written into the marks, for people: who made an attempt.
	Owner string
	// Retention is for how long a mark is kept after its last change, at the least. It is kept up to
	// 9/16 longer, or anew from when etcd's leader changes. Marks take some 350 bytes each in etcd's
	// database, beside what the effect returned: its default quota of 2 GiB holds some six million,
	// those of 50 effects a second for a day. Default 24 h.
	Retention time.Duration
}

func (c Config) withDefaults() Config {
	if c.Retention == 0 {
		c.Retention = 24 * time.Hour
	}
	return c
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	var err error
	switch {
	case c.Queues == nil:
		err = errors.New("Config.Queues is nil; give it an engine's queues at state.Keys.Effects")
	case c.Keys == state.Keys{}:
		err = errors.New("Config.Keys is empty; make it with state.NewKeys")
	case c.Retention != 0 && c.Retention < time.Minute:
		err = fmt.Errorf("Config.Retention is %v; give it a minute or more, or leave it 0 for 24h", c.Retention)
	}
	if err != nil {
		return fmt.Errorf("effects: %w", err)
	}
	return nil
}

// Effects runs effects. All methods are safe for concurrent use.
type Effects struct {
	cfg   Config
	marks *marks
}

// New checks the configuration.
func New(cfg Config) (*Effects, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Effects{cfg: cfg, marks: newMarks(cfg)}, nil
}

// Once runs fn, unless the effect took place before: then it returns what fn returned at that
// time. While another process runs it, Once waits. An error of fn is returned as it is, and
// remembered: the next call runs fn again.
//
// fn gets a fencing token, larger than that of every attempt before, to give to the one that
// receives the effect. Its context ends with ctx, and at the session's deadline. What it
// returns is kept in etcd, if it is not longer than MaxValue; else every caller gets
// ErrValueTooLong, and this call alone the value with it. fn must not call Once with the same name:
// that would wait for itself.
//
// Errors beside fn's, and that it is nil: a [once.UnknownError] if an attempt, this one or one before, left open
// whether the effect took place; ErrValueTooLong if it did; lifecycle.ErrBadName; once.ErrStopped; ctx's cause, or
// etcd's error, if fn did not run. When fn has returned, Once goes on until etcd has what came of it or the session is
// lost, also if ctx has ended. A panic of fn leaves the outcome unknown.
func (e *Effects) Once(ctx context.Context, name string,
	fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error) {
	switch err := state.CheckName("effect", name); {
	case err != nil:
		return once.Result{}, err
	case fn == nil: // or the outcome would be unknown
		return once.Result{}, fmt.Errorf("effect %q: the function is nil; give it the one that has the effect", name)
	case e.cfg.Queues.Closed(): // a client may be closed by now, and would not say so for a while
		return once.Result{}, once.ErrStopped
	}
	// What took place long ago costs one read.
	if m, err := e.marks.read(ctx, name); err != nil {
		return once.Result{}, err
	} else if m.State == once.Done {
		return m.result(name)
	}
	for {
		place, err := e.cfg.Queues.Take(ctx, leasequeue.Want{Name: name, Value: e.cfg.Owner})
		if err != nil {
			return once.Result{}, err
		}
		if r, again, err := e.first(ctx, place, name, fn); !again {
			return r, err
		}
	}
}

// first is what who is first in the effect's queue does, and leaves it. again says that the
// place was lost before anything began, or the mark was changed out of band.
func (e *Effects) first(ctx context.Context, place *leasequeue.Entry, name string,
	fn func(context.Context, int64) ([]byte, error)) (_ once.Result, again bool, err error) {
	defer e.leave(ctx, place)
	m, err := e.marks.read(ctx, name)
	switch {
	case err != nil:
		return once.Result{}, ctx.Err() == nil && !place.Valid(), err
	case m.State == once.Done:
		r, err := m.result(name)
		return r, false, err
	case m.State == once.Running:
		return once.Result{}, false, m.unknown(name, nil) // the one that ran it is not first any more
	}
	work, stop := place.Within(ctx)
	defer stop()
	m.mark = mark{State: once.Running, Attempt: m.Attempt + 1, Token: place.Token(), By: e.cfg.Owner,
		Retention: int64(e.cfg.Retention / time.Second)}
	err = e.marks.confirm(work, place.Guard(), name, &m)
	if err == nil && !place.Valid() {
		err = fmt.Errorf("effect %q: %w", name, errOvertaken) // whatever the timers say
	}
	if err != nil {
		if work.Err() != nil {
			err = errors.Join(err, context.Cause(work))
		}
		again := ctx.Err() == nil && (!place.Valid() || errors.Is(err, errOvertaken))
		// It did not run, and that is to be known: the mark may say that it does.
		return once.Result{}, again, errors.Join(err, e.unmark(place, name, m))
	}
	value, failure := fn(work, m.Token)
	r, err := e.ended(place, name, m, value, failure)
	return r, false, err
}

// unmark takes back that an attempt runs which did not begin: its mark may stand, or be on its way
// still, and then finds another. What cannot be taken back counts as unknown.
func (e *Effects) unmark(place *leasequeue.Entry, name string, m marked) error {
	ctx, cancel := context.WithTimeout(place.Session(), e.cfg.Queues.RequestTimeout())
	defer cancel()
	var err error
	for range 2 { // it may arrive between the two, once
		var now marked
		now, err = e.marks.read(ctx, name)
		if err != nil || now.modified != m.modified && (now.State != once.Running || now.Token != m.Token) {
			return err
		}
		back := m
		back.modified, back.State, back.Error = now.modified, once.Failed, "it did not begin"
		if err = e.marks.confirm(ctx, place.Guard(), name, &back); !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return err
}

// ended writes down what came of an attempt. It is tried for as long as the session stands:
// the guard reports if the place does not.
func (e *Effects) ended(place *leasequeue.Entry, name string, m marked, value []byte,
	failure error) (once.Result, error) {
	switch {
	case failure != nil:
		m.State, m.Error = once.Failed, brief(failure)
	case len(value) > once.MaxValue:
		m.State, m.Dropped = once.Done, len(value)
	default:
		m.State, m.Value = once.Done, value
	}
	if err := e.marks.confirm(place.Session(), place.Guard(), name, &m); err != nil {
		return once.Result{}, m.unknown(name, errors.Join(failure, err, context.Cause(place.Context())))
	}
	if failure != nil {
		return once.Result{}, failure
	}
	r, err := m.result(name)
	r.Value, r.Ran = value, true
	return r, err
}

// brief is an error's text as far as it is kept, for people.
func brief(err error) string {
	const most = 1024
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// Resolve says what is true of the attempt with that token, whose outcome is unknown: that the
// effect took place, with that value; or not, and the next call of Once runs it again. It
// blocks until etcd has it, or ctx ends; a session that is lost meanwhile only costs time. The
// error matches ErrNotUnknown if there is no such attempt, or it was resolved otherwise
// meanwhile, and ErrValueTooLong if the value is; else it is one of lifecycle.ErrBadName, once.ErrStopped,
// ctx's cause and etcd's error.
func (e *Effects) Resolve(ctx context.Context, name string, token int64, tookPlace bool, value []byte) error {
	if len(value) > once.MaxValue {
		return fmt.Errorf("effect %q, %d bytes: %w", name, len(value), once.ErrValueTooLong)
	}
	r := resolution{name: name, token: token, state: once.Failed}
	if tookPlace {
		r.state, r.value = once.Done, value
	}
	for {
		place, err := e.cfg.Queues.Take(ctx, leasequeue.Want{Name: name, Value: e.cfg.Owner})
		if err != nil {
			return err
		}
		if again, err := e.resolve(ctx, place, &r); !again {
			return err
		}
	}
}

// resolution is what is to be said of an attempt.
type resolution struct {
	name  string
	token int64
	state once.State
	value []byte
	at    time.Time // of the last try to write it; zero: there was none
}

// resolve is Resolve of who is first in the effect's queue, and leaves it. again says that it, or
// the mark, was not as it had been, or the session was lost.
func (e *Effects) resolve(ctx context.Context, place *leasequeue.Entry, r *resolution) (again bool, err error) {
	defer e.leave(ctx, place)
	m, err := e.marks.read(ctx, r.name)
	switch {
	case err != nil:
		return false, err
	case !r.at.IsZero() && m.At.Equal(r.at) && m.Token == r.token && m.Resolved == e.cfg.Owner:
		return false, nil // the last try was committed, though nobody said so
	case m.State != once.Running || m.Token != r.token:
		return false, fmt.Errorf("effect %q, token %d: %w", r.name, r.token, once.ErrNotUnknown)
	}
	m.State, m.Value, m.Resolved = r.state, r.value, e.cfg.Owner
	work, stop := wait.Within(ctx, place.Session())
	defer stop()
	err = e.marks.confirm(work, place.Guard(), r.name, &m)
	r.at = m.At
	switch {
	case err == nil:
		return false, nil
	case ctx.Err() != nil:
		return false, errors.Join(err, context.Cause(ctx))
	}
	return errors.Is(err, errOvertaken) || work.Err() != nil, err
}

// leave gives the place up. What is not confirmed in time is done later.
func (e *Effects) leave(ctx context.Context, place *leasequeue.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Queues.RequestTimeout())
	defer cancel()
	_, _ = place.Leave(ctx) // what was written was written under its guard
}

// Close runs no effect any more, ends the contexts of those that run, and has those who wait
// leave. It blocks until what runs has ended, or ctx ends, with its cause for an error.
func (e *Effects) Close(ctx context.Context) error {
	return e.cfg.Queues.Close(ctx)
}
