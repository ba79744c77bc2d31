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
	// lockPatience bounds one wait for a lock.
	lockPatience = 10 * time.Second
	// staleFor is how long a worker that lost its lock tries to write on, at the most: where its
	// key still stands, nothing refuses it. It is longer than etcd takes to end a lease whose
	// deadline has passed.
	staleFor = 2 * time.Second
	// longHolds is how many holds come to one that lasts ten times as long.
	longHolds = 8
)

// LockWork is how nodes work under locks.
type LockWork struct {
	// Locks are their names.
	Locks []string
	// Counters are the registers of these locks, by name; see [Recorder.Counter].
	Counters map[string]*Register
	// Hold and Pause bound how long a lock is held, except for one of eight, which is held for
	// up to ten times as long, and the time until the next one.
	Hold, Pause time.Duration
	// Shared is how many of ten are taken to be shared.
	Shared int
	// Every is the time between two increments under a lock.
	Every time.Duration
}

// NewLockWork is work under locks of these names, each with a counter below prefix.
func (r *Recorder) NewLockWork(node string, client *clientv3.Client, prefix string, names ...string) LockWork {
	w := LockWork{Locks: names, Counters: map[string]*Register{}, Hold: 30 * time.Millisecond,
		Pause: 100 * time.Millisecond, Shared: 3, Every: 5 * time.Millisecond}
	for _, name := range names {
		w.Counters[name] = r.Counter(node, client, prefix+name, name)
	}
	return w
}

// Work takes one lock after the other until ctx ends, at random: some to be shared, a quarter
// only tried. Who has one to itself increments its counter, others read it. Who
// loses one goes on until the guard refuses it, as a worker would that does not look at its
// context, and tries at times to write when it has released. Who does not know what became of a
// write gives the lock up. It blocks until all it took is released or lost.
func (l *Locks) Work(ctx context.Context, w LockWork, rnd *rand.Rand) {
	for ctx.Err() == nil {
		wanted := Wanted{Name: w.Locks[rnd.IntN(len(w.Locks))], Shared: rnd.IntN(10) < w.Shared, Try: rnd.IntN(4) == 0}
		hold := time.Duration(rnd.Int64N(int64(w.Hold) + 1))
		if rnd.IntN(longHolds) == 0 {
			hold *= 10
		}
		attempt, cancel := context.WithTimeout(ctx, lockPatience)
		h, err := l.Take(attempt, wanted)
		cancel()
		if err == nil && h != nil {
			w.under(ctx, h, wanted.Shared, hold, rnd.IntN(4) == 0)
		}
		pause(ctx, time.Duration(rnd.Int64N(int64(w.Pause)+1)))
	}
}

// under works under one lock and releases it.
func (w LockWork) under(ctx context.Context, h *Hold, shared bool, hold time.Duration, goesOn bool) {
	counter := w.Counters[h.Name()]
	increment := func() Op {
		return counter.bounded(ctx, func(ctx context.Context) Op { return counter.Increment(ctx, h.Token(), h.Guard()) })
	}
	lost := false
	for until := time.Now().Add(hold); ctx.Err() == nil && time.Now().Before(until); pause(ctx, w.Every) {
		if shared {
			counter.bounded(ctx, counter.Read)
		} else if op := increment(); op.Outcome == OutcomeRefused {
			break
		} else if op.Outcome == OutcomeUnknown && op.Value != "" {
			// It was sent, and etcd may carry it out as long as the lock's key stands, also after
			// what would be written next: a member of etcd that stood still had it.
			goesOn = false
			break
		}
		if !lost && !shared && !h.Valid() {
			lost, until = true, time.Now().Add(staleFor)
		}
	}
	attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	_ = h.Release(attempt) // one that was lost says so, and the history knows
	if goesOn && !shared {
		increment()
	}
}

// Obtain takes each of the locks for itself once and releases it. It blocks until it has, or
// ctx ends, and returns what kept it; one that it had and lost with the session it had.
func (l *Locks) Obtain(ctx context.Context, names ...string) error {
	for _, name := range names {
		h, err := l.Take(ctx, Wanted{Name: name})
		if err == nil {
			err = h.Release(ctx)
		}
		if err != nil && !errors.Is(err, lock.ErrLost) {
			return fmt.Errorf("obtain lock %q: %w", name, err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
