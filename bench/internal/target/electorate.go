package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goverse/goverse/bench/internal/electproc"
	"github.com/goverse/goverse/bench/internal/reexec"
	"github.com/goverse/goverse/clustertest/fault"
)

// electorate is the running copies of one program, one of which leads.
type electorate struct {
	program electproc.Program
	prefix  string
	ttl     time.Duration
	copies  []*elected
	leader  *elected
	started int
	leads   chan leading
}

// elected is a process with a copy.
type elected struct {
	*reexec.Process
	stopped  chan time.Time // receives the end of its first term
	followed sync.WaitGroup // done at the end of what it says
}

type leading struct {
	by *elected
	at time.Time
}

// newElectorate starts a copy for each of the given addresses of etcd. It returns when the first one leads and the
// others are about to wait. The caller must close it, also after an error.
func newElectorate(ctx context.Context, p electproc.Program, prefix string, ttl time.Duration,
	addresses ...string) (e *electorate, err error) {
	e = &electorate{program: p, prefix: prefix, ttl: ttl, leads: make(chan leading, 10)}
	for i, address := range addresses {
		if err := e.join(address); err != nil {
			return e, err
		}
		if i == 0 {
			if e.leader, _, err = e.next(ctx); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

// join starts a copy and returns when it is about to wait to lead.
func (e *electorate) join(address string) error {
	e.started++
	p, err := reexec.Start(electproc.Arg, e.program.Name, address, e.prefix, fmt.Sprintf("copy-%d", e.started),
		e.ttl.String())
	if err != nil {
		return err
	}
	c := &elected{Process: p, stopped: make(chan time.Time, 1)}
	e.copies = append(e.copies, c)
	c.followed.Go(func() {
		for {
			said, err := p.Await()
			if err != nil {
				return
			}
			now := time.Now()
			switch said {
			case electproc.Leads:
				select {
				case e.leads <- leading{c, now}:
				default: // the channel is full of changes of the leader, which are an error anyway
				}
			case electproc.Stopped:
				select {
				case c.stopped <- now:
				default:
				}
			}
		}
	})
	return nil
}

// next waits until a copy leads that has not led before.
func (e *electorate) next(ctx context.Context) (*elected, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*e.ttl+settling)
	defer cancel()
	select {
	case l := <-e.leads:
		if l.by == e.leader {
			return nil, l.at, fmt.Errorf("%s: the leader leads again, and no other took its place", e.program.Name)
		}
		return l.by, l.at, nil
	case <-ctx.Done():
		return nil, time.Time{}, fmt.Errorf("%s: wait for the next leader: %w", e.program.Name, ctx.Err())
	}
}

// replace ends the leader with a signal, and returns the time from then until the work of the next one began.
func (e *electorate) replace(ctx context.Context, signal os.Signal) (time.Duration, error) {
	old := e.leader
	started := time.Now()
	if err := old.Signal(signal); err != nil {
		return 0, err
	}
	next, at, err := e.next(ctx)
	if err != nil {
		return 0, err
	}
	if at.Before(started) {
		return 0, fmt.Errorf("%s: the leader changed without a signal", e.program.Name)
	}
	e.leader = next
	e.copies = slices.DeleteFunc(e.copies, func(c *elected) bool { return c == old })
	old.followed.Wait()
	if err := old.Stop(); err != nil && signal == syscall.SIGTERM {
		return 0, fmt.Errorf("%s: a copy that was told to stop: %w", e.program.Name, err)
	}
	return at.Sub(started), nil
}

// cutOff lets the relay before the leader drop everything, and returns the times from then until the work of the next
// one began and that of the former leader ended.
func (e *electorate) cutOff(ctx context.Context, relay *fault.Relay) (led, stopped time.Duration, err error) {
	started := time.Now()
	relay.Blackhole(fault.Both)
	_, at, err := e.next(ctx)
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.ttl+settling)
	defer cancel()
	select {
	case end := <-e.leader.stopped:
		return at.Sub(started), end.Sub(started), nil
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("%s: wait until the work of a leader ends that is cut off: %w", e.program.Name, ctx.Err())
	}
}

// close kills all copies. Their keys stay in etcd, which ends next.
func (e *electorate) close() error {
	var errs []error
	for _, c := range e.copies {
		errs = append(errs, c.Kill())
	}
	for _, c := range e.copies {
		c.followed.Wait()
		_ = c.Stop() // reports only that it was killed
	}
	return errors.Join(errs...)
}
