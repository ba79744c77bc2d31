package etcdlock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// faultsEach is the number of faults in a round, two at a time, on different nodes.
	faultsEach = 4
	// roundsAtOnce is the number of concurrent rounds: they mostly wait.
	roundsAtOnce = 3
)

var (
	rounds     = flag.Int("faults.rounds", 3, "rounds of faults at locks; 100 is the full run")
	firstRound = flag.Uint64("faults.first", 0, "which round of faults comes first, to repeat one")
)

// lockRound is the result of one round.
type lockRound struct {
	verdict history.Verdict
	done    map[string]int // kinds of faults that had an effect
	err     error
}

// TestLocksUnderFaults runs locks, counters guarded by them, and effects through -faults.rounds rounds of
// random faults, each with its own etcd and three nodes, and judges the recorded history.
func TestLocksUnderFaults(t *testing.T) {
	t.Parallel()
	results := make([]lockRound, *rounds)
	slots := make(chan struct{}, roundsAtOnce)
	dirs := make([]string, *rounds)
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	began := time.Now()
	var wg sync.WaitGroup
	for i := range results {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = oneLockRound(dirs[i], *firstRound+uint64(i))
		})
	}
	wg.Wait()
	done, faulty, exempt := map[string]int{}, 0, 0
	var sum history.Seen
	var longest time.Duration
	for i, r := range results {
		if r.err != nil || !r.verdict.OK() {
			t.Errorf("round %d: %v\n%v", *firstRound+uint64(i), r.err, r.verdict)
		}
		for kind, n := range r.done {
			done[kind] += n
		}
		if len(r.done) > 0 {
			faulty++
		}
		s := r.verdict.Seen
		sum.Grants, sum.Shared = sum.Grants+s.Grants, sum.Shared+s.Shared
		sum.Increments, sum.Fenced, sum.Unanswered =
			sum.Increments+s.Increments, sum.Fenced+s.Fenced, sum.Unanswered+s.Unanswered
		sum.Effects, sum.Attempts, sum.Ran = sum.Effects+s.Effects, sum.Attempts+s.Attempts, sum.Ran+s.Ran
		sum.Unclear, sum.Late = sum.Unclear+s.Unclear, sum.Late+s.Late
		exempt, longest = exempt+len(r.verdict.Exempt), max(longest, r.verdict.LongestExempt())
	}
	text := ""
	for _, k := range lockFaults() {
		text += fmt.Sprintf("  %-44s %4d\n", k.name, done[k.name])
	}
	t.Logf("%d rounds with faults of %d, in %v; %d grants, %d of them shared; increments: %d accepted, %d refused, %d "+
		"unknown; "+
		"%d effects tried %d times, run %d times, %d unknown for a while, %d too late; exempt overlaps: %d, the longest "+
		"%v\n%s",
		faulty, *rounds, time.Since(began).Round(time.Second), sum.Grants, sum.Shared, sum.Increments, sum.Fenced,
		sum.Unanswered,
		sum.Effects, sum.Attempts, sum.Ran, sum.Unclear, sum.Late, exempt, longest.Round(time.Millisecond), text)
	require.Equal(t, *rounds, faulty)
	require.NotZero(t, sum.Grants)
	require.NotZero(t, sum.Increments)
	require.NotZero(t, sum.Ran)
}

// dealt returns the fault with that number: all kinds come in shuffled order, one shuffle after the other.
func dealt(number uint64) lockFault {
	deck := lockFaults()
	rnd := rand.New(rand.NewPCG(number/uint64(len(deck)), 7))
	rnd.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck[number%uint64(len(deck))]
}

// oneLockRound runs one test bed with some of the faults.
func oneLockRound(dir string, seed uint64) (r lockRound) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	rnd := rand.New(rand.NewPCG(seed, 0))
	bed, err := newLockTestBed(ctx, dir, lockMutant{})
	if err != nil {
		return lockRound{err: err}
	}
	defer func() { r.err = errors.Join(r.err, bed.close()) }()
	working, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	workers.Go(func() { bed.work(working, rand.New(rand.NewPCG(seed, 1))) })
	var mu sync.Mutex
	r.done = map[string]int{}
	var faults sync.WaitGroup
	for lane := range 2 {
		own := rand.New(rand.NewPCG(seed, uint64(2+lane)))
		n := bed.nodes[(seed+uint64(lane))%uint64(len(bed.nodes))]
		faults.Go(func() {
			for i := lane; i < faultsEach; i += 2 {
				wait.For(ctx, schedule.Between(own, 0, 200*time.Millisecond))
				k := dealt(seed*faultsEach + uint64(i))
				effect, err := k.do(ctx, bed, n, own)
				mu.Lock()
				if effect {
					r.done[k.name]++
				}
				if err != nil {
					r.err = errors.Join(r.err, fmt.Errorf("%s at %s: %w", k.name, n.name, err))
				}
				mu.Unlock()
			}
		})
	}
	faults.Wait()
	for _, n := range bed.nodes {
		r.err = errors.Join(r.err, n.toEtcd().EndFaults())
	}
	wait.For(ctx, schedule.Between(rnd, 0, 100*time.Millisecond))
	r.err = errors.Join(r.err, bed.obtain(ctx))
	stop()
	workers.Wait()
	r.err = errors.Join(r.err, bed.resolve(ctx))
	v, err := bed.judge(lockLimits)
	r.verdict, r.err = v, errors.Join(r.err, err)
	return r
}
