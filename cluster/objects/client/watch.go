package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// timing is how long the watcher waits for what.
type timing struct {
	stagger time.Duration // for a node's answer, before the next one is asked as well
	round   time.Duration // for any answer, before all are asked anew
	stall   time.Duration // that calls wait for other routes, before another node is watched
	rotate  time.Duration // at one node
	older   time.Duration // without a node that knows as new a map, before an older one is taken
}

// usual is the timing of Dial.
var usual = timing{stagger: 250 * time.Millisecond, round: 5 * time.Second, stall: time.Second, rotate: time.Minute,
	older: 10 * time.Second}

// again is how long to wait before the nodes are asked again, and restless before another node is watched because
// the one before reported no other routes.
var (
	again    = backoff.Policy{First: 10 * time.Millisecond, Last: time.Second}
	restless = backoff.Policy{First: time.Second, Last: 30 * time.Second}
)

// watcher keeps the table current: it watches the routes at one node, and goes on with another one.
type watcher struct {
	cfg     Config
	timing  timing
	table   *table
	dial    []grpc.DialOption
	ready   chan struct{} // closed with the first routes
	refused chan struct{} // closed if all nodes refuse before that; then nothing is watched

	// Of the goroutine in run; failures also of Dial, after run has returned.
	failures map[string]*askError // of the addresses of the configuration
	switches backoff.Backoff      // of nodes for want of other routes
	notYet   time.Time            // until when there is no further such switch
}

func newWatcher(cfg Config, t timing, table *table) *watcher {
	return &watcher{cfg: cfg, timing: t, table: table, dial: dialOptions(cfg), ready: make(chan struct{}),
		refused: make(chan struct{}), failures: map[string]*askError{}, switches: backoff.Backoff{Policy: restless}}
}

// run watches until ctx ends, or until all nodes have refused before the first routes came.
func (w *watcher) run(ctx context.Context) {
	pause := backoff.Backoff{Policy: again}
	var last string       // the node watched last
	var without time.Time // since when no node is watched
	failed := 0           // rounds in a row
	log := w.cfg.Logger
	for first := true; first || wait.For(ctx, pause.Next()); first = false {
		older := !without.IsZero() && time.Since(without) >= w.timing.older
		s := w.search(ctx, w.candidates(last), older)
		switch {
		case s != nil:
		case ctx.Err() != nil:
			return
		case w.table.current.Load() == nil && w.allRefuse():
			close(w.refused)
			return
		default:
			if without.IsZero() {
				without = time.Now()
			}
			if failed++; failed == warnAfter {
				log.Warn("no node reports the routes; calls go by those known before", "error", w.failure(nil))
			}
			continue
		}
		if last != s.address {
			log.Info("the routes come from another node", "address", s.address)
		}
		last, without, failed = s.address, time.Time{}, 0
		clear(w.failures)
		began := time.Now()
		err := w.follow(ctx, s)
		if time.Since(began) > again.Last {
			pause.Reset()
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errStalled):
			log.Warn("calls wait for routes that do not come; asking other nodes", "address", s.address)
		case !errors.Is(err, errRotate):
			log.Info("the node that reported the routes is lost; asking others", "address", s.address, "error",
				(&askError{s.address, err}).Error())
			without = time.Now()
		}
	}
}

// errRefused: all nodes have refused to report the routes.
var errRefused = errors.New("all nodes refuse")

// first blocks until the first routes are there. Its error is for explain, when run has returned.
func (w *watcher) first(ctx context.Context) error {
	select {
	case <-w.ready:
		return nil
	case <-w.refused:
		return errRefused
	case <-ctx.Done():
		return endOf(ctx)
	}
}

// warnAfter is after how many rounds without an answer there is a line in the log.
const warnAfter = 5

// Why a node is watched no longer, although its stream stands.
var (
	errStalled = errors.New("calls wait for other routes than those that the node reports")
	errRotate  = errors.New("it is time to watch another node")
	errSilent  = errors.New("it does not answer any more")
)

// heartbeat is how often a node is to say that it is there, and silenceOf after how long without a message it is taken
// for one that stands still.
const heartbeat = time.Second

func silenceOf(heartbeat time.Duration) time.Duration { return 5 * heartbeat / 2 }

// follow puts into the table what a node reports, until the stream ends, or there is a reason to watch another node.
// The stream is closed when it returns.
func (w *watcher) follow(ctx context.Context, s *source) error {
	messages, ended := make(chan *objectspb.WatchRoutesResponse), make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.close()
	wg.Go(func() {
		for {
			m, err := s.stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case messages <- m:
			case <-s.ctx.Done():
				return
			}
		}
	})
	rotate := time.NewTimer(w.timing.rotate/2 + rand.N(w.timing.rotate))
	defer rotate.Stop()
	w.put(s.first)
	limit := s.first.silence // one node keeps to it
	silence := time.NewTimer(limit)
	defer silence.Stop()
	if limit == 0 {
		silence.Stop()
	}
	for {
		select {
		case m := <-messages:
			if limit > 0 {
				silence.Reset(limit)
			}
			if m.GetUnchanged() {
				continue
			}
			next, err := read(m)
			if err != nil {
				return err
			}
			w.put(next)
		case <-silence.C:
			return errSilent
		case err := <-ended:
			return err
		case <-w.table.stalled:
			if now := time.Now(); !now.Before(w.notYet) {
				w.notYet = now.Add(w.switches.Next())
				return errStalled
			}
		case <-rotate.C:
			return errRotate
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put replaces the routes.
func (w *watcher) put(next *routes) {
	former := w.table.current.Load()
	if w.table.put(next) {
		w.switches.Reset()
	}
	switch {
	case former == nil:
		close(w.ready)
	case next.generation < former.generation:
		w.cfg.Logger.Warn("the shard map is older than the one before: was the cluster made anew?", "generation",
			next.generation, "before", former.generation)
	}
}

// candidates are the nodes to ask, in order: those that the routes name and those of the configuration, each at random,
// and at the end the one that was watched last.
func (w *watcher) candidates(last string) []string {
	var known []string
	if r := w.table.current.Load(); r != nil {
		known = slices.Clone(r.addresses)
		if r.leader != "" {
			known = append(known, r.leader)
		}
	}
	seeds := slices.Clone(w.cfg.Addresses)
	var all []string
	for _, some := range [][]string{known, seeds} {
		rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		for _, a := range some {
			if a != last && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	if last != "" {
		all = append(all, last)
	}
	return all
}

// allRefuse reports whether all addresses of the configuration refuse.
func (w *watcher) allRefuse() bool {
	return !slices.ContainsFunc(w.cfg.Addresses, func(a string) bool {
		f := w.failures[a]
		return f == nil || !f.refused()
	})
}

// explain is why there are no routes, for the caller of Dial.
func (w *watcher) explain(err error) error {
	if errors.Is(err, errRefused) {
		err = nil
	}
	return w.failure(err)
}

// failure is why no address of the configuration has reported the routes.
func (w *watcher) failure(cause error) error {
	e := &dialError{cause: cause}
	for _, a := range w.cfg.Addresses {
		f := w.failures[a]
		if f == nil {
			f = &askError{a, errNotAsked}
		}
		e.asked = append(e.asked, f)
	}
	return e
}
