//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/test/history"
)

const (
	// concurrentFaults is the number of concurrent faults, each at another node.
	concurrentFaults = 2
	// silenceLimit limits the time that an unaffected node may be without a place, and that a shard may be unserved
	// while no node is affected.
	silenceLimit = 20 * time.Second
)

// verdictLimits returns the limits for the verdict on a history. A node must notice an out-of-band change at its next
// renewal, and a removal on evidence by the end of the grace period, or at its deadline at the latest.
func verdictLimits(ttl time.Duration) history.Limits {
	return history.Limits{Silent: silenceLimit, Unserved: silenceLimit, Exempt: map[string]time.Duration{
		history.LeaseRevoked: ttl/3 + time.Second, history.KeyDeleted: ttl/3 + time.Second,
		history.LockDeleted: ttl/3 + time.Second, history.RemovedAlive: ttl}}
}

// Count holds the numbers of one kind of fault.
type Count struct {
	Kind string
	// Done counts the faults at nodes or at etcd, and Counted those with an observed effect. Of the counted
	// ones, OnLeader affected the current leader, and AtOwner a node that served shards.
	Done, Counted, OnLeader, AtOwner int
	// Removed counts the members that were removed for their silence in such a fault.
	Removed int
}

// Result describes the faults of one world and the verdict on its history.
type Result struct {
	Seed    uint64
	Took    time.Duration
	Counts  []Count
	Verdict history.Verdict
	// Err is the reason that the run was aborted, or nil: a node that did not come back, or a fault without the
	// expected effect. It also names members that were removed for their silence though they lived and reached etcd.
	Err error
	// Faults lists the faults with their times, one line each. Output holds the output of the nodes.
	Faults []string
	Output map[string]string
}

// Run puts one world through random faults and judges it. It blocks until everything has ended. If ctx ends,
// the run ends early and Err reports it. Run returns an error if the run's own equipment fails.
func Run(ctx context.Context, cfg Config, seed uint64) (*Result, error) {
	w, err := newWorld(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r := &runner{w: w, rnd: rand.New(rand.NewPCG(seed, 0)), counts: map[string]*Count{}, began: time.Now()}
	res := &Result{Seed: seed, Output: map[string]string{}}
	res.Err = r.run(ctx)
	if res.Err == nil {
		res.Err = w.stop(ctx)
	}
	for _, n := range w.nodes {
		res.Output[fmt.Sprintf("node %d %s", n.index, n.address())] = n.output()
	}
	if err := w.close(); err != nil {
		return nil, err
	}
	h, err := w.readRecords()
	if err != nil {
		return nil, err
	}
	res.Verdict = w.judge(h)
	removed, err := w.removals.judge(h.Runs)
	res.Err = errors.Join(res.Err, err)
	for kind, n := range removed {
		r.countsOf(kind).Removed += n
	}
	res.Took, res.Faults = time.Since(r.began), r.log
	for _, k := range allFaultKinds() {
		if c := r.counts[k.name]; c != nil {
			res.Counts = append(res.Counts, *c)
		}
	}
	return res, nil
}

// judgeRecords checks the records of all processes, which must have ended.
func (w *world) judgeRecords() (history.Verdict, error) {
	h, err := w.readRecords()
	if err != nil {
		return history.Verdict{}, err
	}
	return w.judge(h), nil
}

// readRecords merges the records of all processes.
func (w *world) readRecords() (history.History, error) {
	paths, err := filepath.Glob(filepath.Join(w.dir, "*.jsonl"))
	if err != nil {
		return history.History{}, err
	}
	return history.ReadFiles(paths...)
}

// judge checks a history.
func (w *world) judge(h history.History) history.Verdict {
	ttl := time.Duration(w.cfg.TTL) * time.Second
	l := verdictLimits(ttl)
	if w.cfg.RevokedApart {
		l.Exempt[history.RevokedByEtcd] = ttl
	}
	return history.Check(h, l)
}

type runner struct {
	w     *world
	rnd   *rand.Rand
	began time.Time

	mu                sync.Mutex
	counts            map[string]*Count
	atNodes, atLeader int // faults begun
	log               []string
	err               error
}

// run executes the decks, a few faults at a time, and waits for calm after each deck.
func (r *runner) run(ctx context.Context) error {
	for range r.w.cfg.Decks {
		deck := deckOfFaults(r.w.cfg)
		r.rnd.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		slots := make(chan struct{}, concurrentFaults)
		var wg sync.WaitGroup
		for len(deck) > 0 {
			slots <- struct{}{}
			f, ok := r.chooseFault(ctx, &deck)
			if !ok {
				break
			}
			rnd := rand.New(rand.NewPCG(r.rnd.Uint64(), 0)) // its own, because faults run concurrently
			wg.Go(func() {
				defer func() { <-slots }()
				defer f.release()
				r.runFault(ctx, f, rnd)
			})
		}
		wg.Wait()
		if err := errors.Join(r.firstError(), context.Cause(ctx)); err != nil {
			return err
		}
		if err := r.w.awaitCalm(ctx); err != nil {
			return fmt.Errorf("after the faults: %w", err)
		}
	}
	return nil
}

func (r *runner) runFault(ctx context.Context, f chosenFault, rnd *rand.Rand) {
	k, n := f.kind, f.node
	leads := n != nil && r.w.leader() == n
	r.logFault("%s begins%s", k.name, describeTarget(n, leads))
	over := func(context.Context) {}
	if k.silences {
		over = r.w.allowRemoval(n, k.name)
	}
	err := k.do(ctx, r.w, n, rnd)
	if err == nil || errors.Is(err, errNoEffect) {
		over(ctx)
	}
	r.mu.Lock()
	c := r.countsOf(k.name)
	c.Done++
	switch {
	case err == nil:
		c.Counted++
		if leads {
			c.OnLeader++
		}
		if f.owns {
			c.AtOwner++
		}
	case !errors.Is(err, errNoEffect) && ctx.Err() == nil:
		r.err = errors.Join(r.err, fmt.Errorf("%s%s: %w", k.name, describeTarget(n, leads), err))
	}
	r.mu.Unlock()
	r.logFault("%s ends%s: %v", k.name, describeTarget(n, leads), err)
}

// countsOf returns the counts of a kind of fault. The lock is held, or the run has ended.
func (r *runner) countsOf(kind string) *Count {
	c := r.counts[kind]
	if c == nil {
		c = &Count{Kind: kind}
		r.counts[kind] = c
	}
	return c
}

func describeTarget(n *chaosNode, leads bool) string {
	switch {
	case n == nil:
		return ""
	case leads:
		return fmt.Sprintf(" at node %d %s, the leader", n.index, n.address())
	}
	return fmt.Sprintf(" at node %d %s", n.index, n.address())
}

func (r *runner) logFault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf("%8.3fs (clock %d) ", time.Since(r.began).Seconds(), history.Now())+
		fmt.Sprintf(format, args...))
}

func (r *runner) firstError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Add returns the sums of the counts of several worlds, in the order of allFaultKinds.
func Add(counts ...[]Count) []Count {
	sum := map[string]Count{}
	for _, c := range slices.Concat(counts...) {
		s := sum[c.Kind]
		sum[c.Kind] = Count{Kind: c.Kind, Done: s.Done + c.Done, Counted: s.Counted + c.Counted,
			OnLeader: s.OnLeader + c.OnLeader, AtOwner: s.AtOwner + c.AtOwner, Removed: s.Removed + c.Removed}
	}
	var out []Count
	for _, k := range allFaultKinds() {
		if c, ok := sum[k.name]; ok {
			out = append(out, c)
		}
	}
	return out
}
