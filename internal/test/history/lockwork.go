package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
)

const (
	// lockPatience limits one wait for a lock.
	lockPatience = 10 * time.Second
	// staleWriteTime limits the time that a worker that lost its lock tries to write on; nothing refuses it while its
	// key exists. It is longer than etcd takes to end a lease after its deadline.
	staleWriteTime = 2 * time.Second
	// longHolds is the average number of holds among which one lasts ten times as long.
	longHolds = 8
)

// LockWork configures the work of nodes under locks.
type LockWork struct {
	// Locks lists the names of the locks.
	Locks []string
	// Counters maps the name of each lock to its counter.
	Counters map[string]LockCounter
	// Hold limits the time that a lock is held; one hold of eight may last ten times as long. Pause limits the
	// time until the next lock is taken.
	Hold, Pause time.Duration
	// Shared is the number of locks in ten that are taken to be shared.
	Shared int
	// Every is the time between two increments under a lock.
	Every time.Duration
}

// LockCounter is a counter that the holder of a lock increments, and that holders who share it read. An operation
// without an answer is unknown.
type LockCounter interface {
	// Increment increments the counter if the lock is held.
	Increment(ctx context.Context, h *Hold) Op
	Read(ctx context.Context) Op
}

// guardedCounter is a counter in etcd.
type guardedCounter struct{ *Register }

func (g guardedCounter) Increment(ctx context.Context, h *Hold) Op {
	return g.Register.Increment(ctx, h.Token(), h.Guard())
}

// NewLockWork returns work under locks of these names, each with a counter in etcd below prefix; see
// [Recorder.Counter].
func (r *Recorder) NewLockWork(node string, client *clientv3.Client, prefix string, names ...string) LockWork {
	return newLockWork(names, func(name string) LockCounter {
		return guardedCounter{r.Counter(node, client, prefix+name, name)}
	})
}

func newLockWork(names []string, counter func(name string) LockCounter) LockWork {
	w := LockWork{Locks: names, Counters: map[string]LockCounter{}, Hold: 30 * time.Millisecond,
		Pause: 100 * time.Millisecond, Shared: 3, Every: 5 * time.Millisecond}
	for _, name := range names {
		w.Counters[name] = counter(name)
	}
	return w
}

// Work takes one lock after the other, at random, until ctx ends: some shared, a quarter with Try. Under an
// exclusive lock it increments the lock's counter, under a shared lock it reads it. After it lost a lock it
// continues until the guard refuses its writes, as a worker would that ignores its context. At times it also
// writes after it released the lock. After a write of unknown outcome it gives up the lock. Work blocks until
// all its locks are released or lost.
func (l *Locks) Work(ctx context.Context, w LockWork, rnd *rand.Rand) {
	for ctx.Err() == nil {
		wanted := LockRequest{Name: w.Locks[rnd.IntN(len(w.Locks))], Shared: rnd.IntN(10) < w.Shared, Try: rnd.IntN(4) == 0}
		hold := time.Duration(rnd.Int64N(int64(w.Hold) + 1))
		if rnd.IntN(longHolds) == 0 {
			hold *= 10
		}
		attempt, cancel := context.WithTimeout(ctx, lockPatience)
		h, err := l.Acquire(attempt, wanted)
		cancel()
		if err == nil && h != nil {
			w.workUnderLock(ctx, h, wanted.Shared, hold, rnd.IntN(4) == 0)
		}
		pauseFor(ctx, time.Duration(rnd.Int64N(int64(w.Pause)+1)))
	}
}

// workUnderLock works under one lock and releases it.
func (w LockWork) workUnderLock(ctx context.Context, h *Hold, shared bool, hold time.Duration, goesOn bool) {
	counter := w.Counters[h.Name()]
	increment := func() Op {
		return runBounded(ctx, func(ctx context.Context) Op { return counter.Increment(ctx, h) })
	}
	lost := false
	for until := time.Now().Add(hold); ctx.Err() == nil && time.Now().Before(until); pauseFor(ctx, w.Every) {
		if shared {
			runBounded(ctx, counter.Read)
		} else if op := increment(); op.Outcome == OutcomeRefused {
			break
		} else if op.Outcome == OutcomeUnknown && op.Value != "" {
			// The write was sent, and etcd may execute it while the lock's key exists, even after a later
			// write: a member of etcd that stood still once held such a write back. So may PostgreSQL.
			goesOn = false
			break
		}
		if !lost && !shared && !h.Valid() {
			lost, until = true, time.Now().Add(staleWriteTime)
		}
	}
	attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	_ = h.Release(attempt) // a lost lock returns an error, and the history records the loss
	if goesOn && !shared {
		increment()
	}
}

// AcquireEach takes each of the locks exclusively, once, and releases it. It blocks until it has or ctx ends, and
// returns the error. A lock that was taken and then lost with its session is no error.
func (l *Locks) AcquireEach(ctx context.Context, names ...string) error {
	for _, name := range names {
		h, err := l.Acquire(ctx, LockRequest{Name: name})
		if err == nil {
			err = h.Release(ctx)
		}
		if err != nil && !errors.Is(err, lock.ErrLost) {
			return fmt.Errorf("obtain lock %q: %w", name, err)
		}
	}
	return nil
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
