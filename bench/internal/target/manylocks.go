package target

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const (
	manyGoal = 4.0
	// manyFor and manyBriefly are the durations of one round of one arm.
	manyFor, manyBriefly = time.Second, 50 * time.Millisecond
)

// many measures locks with distinct names, taken by many goroutines concurrently.
func many(ctx context.Context, env Env, r *report.Result) error {
	lasts := manyFor
	if env.Quick {
		lasts = manyBriefly
	}
	servers, closeServers, err := withServers(ctx)
	if err != nil {
		return err
	}
	defer closeServers()
	for _, goroutines := range []int{1, 16, 64, 256, 512} {
		var rates []*sample.Series
		if err := withEtcd(func(p *etcdproc.Process) (err error) {
			rates, err = rounds(ctx, p, present(servers), goroutines, env.pick(9, 1), lasts)
			return err
		}); err != nil {
			return fmt.Errorf("%d goroutines: %w", goroutines, err)
		}
		r.Keep(rates...)
		mine := rates[0]
		for i, s := range rates {
			if i == 0 {
				continue
			}
			ratio := &sample.Series{Name: fmt.Sprintf("%s: goverse to that", s.Name), Unit: "×"}
			for j := range s.Values {
				ratio.Values = append(ratio.Values, mine.Values[j]/s.Values[j])
			}
			r.Keep(ratio)
			if i == 1 {
				target, verdict := "", report.Context
				if goroutines >= 256 {
					target, verdict = fmt.Sprintf("≥ %.0f × %s", manyGoal, mutexesName), report.Judge(ratio.Median() >= manyGoal)
				}
				r.Row(mine.Name, target, fmt.Sprintf("%.0f pairs/s: %.1f × (least %.1f)", mine.Median(), ratio.Median(),
					ratio.P(0)), verdict)
			}
			r.Row(s.Name, "", fmt.Sprintf("%.0f pairs/s", s.Median()), report.Context)
		}
	}
	sayAbsent(servers, r)
	r.Note("A pair is taking and giving back a lock that only this goroutine uses; medians of rounds of %v, all in "+
		"turns, each on a session and a connection of "+
		"its own. The ratio is to "+mutexesName+", of two rounds that follow each other. Another session waits for a lock "+
		"that the first one holds, so the watch of its part of all locks runs.", manyFor)
	r.Note(peersNote)
	return nil
}

// rounds takes each library's locks for a period, in turns. It returns the pairs per second, first for Goverse,
// then for package concurrency, then for the servers.
func rounds(ctx context.Context, p *etcdproc.Process, servers []library, goroutines, n int,
	lasts time.Duration) ([]*sample.Series, error) {
	clients, closeAll, err := dial(ctx, p.Endpoint, 3)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	all, closeLocks, err := inEtcd(ctx, clients[:1], clients[1:2])
	if err != nil {
		return nil, err
	}
	defer closeLocks()
	held, err := all[0].wanter(ctx, "held", 0)
	if err != nil {
		return nil, err
	}
	if err := held.lock(); err != nil {
		return nil, err
	}
	waits, err := newLocker(ctx, clients[2], "waits")
	if err != nil {
		return nil, err
	}
	defer waits.close()
	waiting, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { _ = waits.pair(waiting, "held") }) // until stopped

	all = append(all, servers...)
	rates, wanters := make([]*sample.Series, len(all)), make([][]mutual, len(all))
	for i, l := range all {
		rates[i] = &sample.Series{Name: fmt.Sprintf("%s, %d goroutines", l.name, goroutines), Unit: "pairs/s"}
		if wanters[i], err = l.wanters(ctx, goroutines, each); err != nil {
			return nil, err
		}
	}
	for round := range n + 1 {
		for i, s := range rates {
			v, err := perSecond(goroutines, lasts, func(j int) error { return wanters[i][j].pair() })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
			if round > 0 { // the first round warms up
				s.Values = append(s.Values, v)
			}
		}
	}
	return rates, held.unlock()
}

// perSecond runs do repeatedly in several goroutines for a period, and returns the total number of calls per
// second.
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
