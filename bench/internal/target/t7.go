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
	manyGoal = 4.0
	// manyFor and manyBriefly are how long one round of one arm lasts.
	manyFor, manyBriefly = time.Second, 50 * time.Millisecond
)

// many measures locks of distinct names, taken by many goroutines at once.
func many(ctx context.Context, env Env, r *report.Result) error {
	lasts := manyFor
	if env.Quick {
		lasts = manyBriefly
	}
	for _, goroutines := range []int{1, 16, 256, 512} {
		ours := &sample.Series{Name: fmt.Sprintf("goverse, %d goroutines", goroutines), Unit: "pairs/s"}
		peer := &sample.Series{Name: fmt.Sprintf("concurrency.Mutex, %d goroutines", goroutines), Unit: "pairs/s"}
		ratios := &sample.Series{Name: fmt.Sprintf("%d goroutines: ratio", goroutines), Unit: "×"}
		if err := withEtcd(func(p *etcdproc.Process) error {
			return rounds(ctx, p, goroutines, env.pick(9, 1), lasts, ours, peer, ratios)
		}); err != nil {
			return fmt.Errorf("%d goroutines: %w", goroutines, err)
		}
		target, verdict := "", report.Context
		if goroutines >= 256 {
			target, verdict = fmt.Sprintf("≥ %.0f × concurrency.Mutex", manyGoal), report.Judge(ratios.Median() >= manyGoal)
		}
		r.Row(ours.Name, target, fmt.Sprintf("%.0f pairs/s, concurrency.Mutex %.0f: %.1f × (least %.1f)", ours.Median(), peer.Median(), ratios.Median(), ratios.P(0)), verdict)
		r.Keep(ours, peer, ratios)
	}
	r.Note("A pair is `Acquire` and `Release` of a lock that only this goroutine uses; medians of rounds of %v, the two in turns, each on a session and a connection of "+
		"its own. The ratio is that of two rounds that follow each other. Another session waits for a lock that the first one holds, so the watch of its part of all locks runs.", manyFor)
	return nil
}

func rounds(ctx context.Context, p *etcdproc.Process, goroutines, n int, lasts time.Duration, ours, peer, ratios *sample.Series) error {
	clients, closeAll, err := dial(ctx, p.Endpoint, 3)
	if err != nil {
		return err
	}
	defer closeAll()
	l, err := newLocker(ctx, clients[0], "bench")
	if err != nil {
		return err
	}
	defer l.close()
	waits, err := newLocker(ctx, clients[1], "waits")
	if err != nil {
		return err
	}
	defer waits.close()
	held, err := l.locks.Acquire(ctx, "held")
	if err != nil {
		return err
	}
	waiting, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { _ = waits.pair(waiting, "held") }) // until stopped
	s, err := concurrency.NewSession(clients[2], concurrency.WithTTL(int(lockTTL.Seconds())))
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	mutexes := make([]*concurrency.Mutex, goroutines)
	for i := range mutexes {
		mutexes[i] = concurrency.NewMutex(s, fmt.Sprintf("/peer/%d", i))
	}
	mine := func(i int) error { return l.pair(ctx, fmt.Sprintf("lock %d", i)) }
	theirs := func(i int) error {
		if err := mutexes[i].Lock(ctx); err != nil {
			return err
		}
		return mutexes[i].Unlock(ctx)
	}
	for i := range n + 1 {
		a, err := perSecond(goroutines, lasts, mine)
		if err != nil {
			return err
		}
		b, err := perSecond(goroutines, lasts, theirs)
		if err != nil {
			return err
		}
		if i > 0 { // the first one warms up
			ours.Values = append(ours.Values, a)
			peer.Values = append(peer.Values, b)
			ratios.Values = append(ratios.Values, a/b)
		}
	}
	return held.Release(ctx)
}

// perSecond has goroutines do something again and again for a while, and returns how often
// they did it in a second, all together.
func perSecond(goroutines int, lasts time.Duration, do func(i int) error) (float64, error) {
	var wg sync.WaitGroup
	began, counts, errs := time.Now(), make([]int, goroutines), make([]error, goroutines)
	for i := range goroutines {
		wg.Go(func() {
			for time.Since(began) < lasts && errs[i] == nil {
				errs[i] = do(i)
				counts[i]++
			}
		})
	}
	wg.Wait()
	took, all := time.Since(began), 0
	for _, n := range counts {
		all += n
	}
	return float64(all) / took.Seconds(), errors.Join(errs...)
}
