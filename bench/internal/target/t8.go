package target

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const (
	contendedGoal = 1.5
	// sides is over how many sessions the contenders are spread: as many processes.
	sides = 2
)

// contended measures the handoff of one lock that several want all the time.
func contended(ctx context.Context, env Env, r *report.Result) error {
	for _, contenders := range []int{2, 8, 64} {
		name := func(what string) string { return fmt.Sprintf("%s, %d contenders", what, contenders) }
		ours, floor, peer := sample.Millis(name("goverse")), sample.Millis(name("delete to watch event")), sample.Millis(name("concurrency.Mutex"))
		if err := withEtcd(func(p *etcdproc.Process) error {
			return contend(ctx, p, contenders, env.pick(5, 1), env.pick(200, 10), ours, floor, peer)
		}); err != nil {
			return fmt.Errorf("%d contenders: %w", contenders, err)
		}
		ratio := ours.Median() / floor.Median()
		r.Row(ours.Name, fmt.Sprintf("p50 ≤ %.1f × delete to watch event", contendedGoal), fmt.Sprintf("%s: %.2f ×", p50p99(ours.Median(), ours.P(0.99)), ratio),
			report.Judge(ratio <= contendedGoal))
		r.Row(floor.Name, "", p50p99(floor.Median(), floor.P(0.99)), report.Context)
		r.Row(peer.Name, "", p50p99(peer.Median(), peer.P(0.99)), report.Context)
		r.Keep(ours, floor, peer)
	}
	r.Note("A handoff runs from the call of `Release` of one holder until `Acquire` of the next one has returned. Contenders take the lock, give it back, and want it "+
		"again at once; they are spread over %d sessions with a connection each, as are those of `concurrency.Mutex`, each of which needs a session of its own. The arms take turns, in rounds. Floor: from "+
		"the call of `Delete` until as many bare watchers have the event, one at a time.", sides)
	return nil
}

// mutual is one lock as somebody takes it and gives it back.
type mutual struct {
	lock   func() error
	unlock func() error
}

func contend(ctx context.Context, p *etcdproc.Process, contenders, rounds, handoffs int, ours, floor, peer *sample.Series) error {
	clients, closeAll, err := dial(ctx, p.Endpoint, 2*sides)
	if err != nil {
		return err
	}
	defer closeAll()
	w, err := watch(ctx, clients, "/floor/", contenders)
	if err != nil {
		return err
	}
	defer w.close()
	var mine, theirs []mutual
	for i := range sides {
		l, err := newLocker(ctx, clients[i], fmt.Sprint(i))
		if err != nil {
			return err
		}
		defer l.close()
		for range contenders / sides {
			var release func() error
			mine = append(mine, mutual{func() error {
				h, err := l.locks.Acquire(ctx, "one")
				if err == nil {
					release = func() error { return h.Release(ctx) }
				}
				return err
			}, func() error { return release() }})
		}
	}
	for i := range contenders {
		s, err := concurrency.NewSession(clients[sides+i%sides], concurrency.WithTTL(int(lockTTL.Seconds())))
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		m := concurrency.NewMutex(s, "/peer/one")
		theirs = append(theirs, mutual{func() error { return m.Lock(ctx) }, func() error { return m.Unlock(ctx) }})
	}
	for i := range rounds + 1 {
		a, err := handoffsOf(mine, handoffs)
		if err != nil {
			return err
		}
		// The peer waits for etcd to look at its watches, 100 ms each: fewer will do.
		b, err := handoffsOf(theirs, max(handoffs/10, 5))
		if err != nil {
			return err
		}
		var c []time.Duration
		for range max(handoffs/10, 5) {
			rest(ctx, time.Millisecond)
			if _, err := w.put(ctx, 0); err != nil {
				return err
			}
			d, err := w.remove(ctx, 0)
			if err != nil {
				return err
			}
			c = append(c, d)
		}
		if i == 0 {
			continue // it warms up
		}
		for arm, got := range map[*sample.Series][]time.Duration{ours: a, peer: b, floor: c} {
			for _, d := range got {
				arm.Add(d)
			}
		}
	}
	return nil
}

// handoffsOf has all want one lock, again and again, until it was handed over that often, and
// returns how long each handoff took.
func handoffsOf(all []mutual, n int) ([]time.Duration, error) {
	var mu sync.Mutex // of what the lock itself guards, if it works
	var released time.Time
	var took []time.Duration
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(took) >= n
	}
	for i, m := range all {
		wg.Go(func() {
			for !enough() && errs[i] == nil {
				if errs[i] = m.lock(); errs[i] != nil {
					return
				}
				now := time.Now()
				mu.Lock()
				if !released.IsZero() && len(took) < n {
					took = append(took, now.Sub(released))
				}
				released = time.Now()
				mu.Unlock()
				errs[i] = m.unlock()
			}
		})
	}
	wg.Wait()
	return took, errors.Join(errs...)
}
