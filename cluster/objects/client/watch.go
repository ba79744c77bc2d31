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

// watchTiming holds the time limits of a watcher.
type watchTiming struct {
	stagger time.Duration // the wait for a node's answer before the next node is asked as well
	round   time.Duration // the wait for any answer before all nodes are asked again
	stall   time.Duration // the time for which calls wait for other routes before another node is watched
	rotate  time.Duration // the time at one node
	older   time.Duration // the time without a node with as new a map before an older map is accepted
}

// defaultTiming is the timing of Dial.
var defaultTiming = watchTiming{stagger: 250 * time.Millisecond, round: 5 * time.Second, stall: time.Second,
	rotate: time.Minute,
	older:  10 * time.Second}

// retryBackoff is the pause before the nodes are asked again. switchBackoff is the pause before another node is watched
// because the previous one reported no other routes.
var (
	retryBackoff  = backoff.Policy{First: 10 * time.Millisecond, Last: time.Second}
	switchBackoff = backoff.Policy{First: time.Second, Last: 30 * time.Second}
)

// routeWatcher keeps the table current. It watches the routes at one node and changes nodes when necessary.
type routeWatcher struct {
	cfg     Config
	timing  watchTiming
	table   *routeTable
	dial    []grpc.DialOption
	ready   chan struct{} // closed with the first routes
	refused chan struct{} // closed if all nodes refuse before the first routes; the watcher then ends

	// The following belong to the goroutine in run. Dial uses failures, too, after run has returned.
	failures   map[string]*askError // by address of the configuration
	switches   backoff.Backoff      // of changes to another node because other routes did not come
	nextSwitch time.Time            // no such change before this time
}

func newRouteWatcher(cfg Config, t watchTiming, table *routeTable) *routeWatcher {
	return &routeWatcher{cfg: cfg, timing: t, table: table, dial: dialOptions(cfg), ready: make(chan struct{}),
		refused: make(chan struct{}), failures: map[string]*askError{}, switches: backoff.Backoff{Policy: switchBackoff}}
}

// run watches until ctx ends, or until all nodes have refused before the first routes came.
func (w *routeWatcher) run(ctx context.Context) {
	pause := backoff.Backoff{Policy: retryBackoff}
	var last string       // the node watched last
	var without time.Time // since when no node is watched; zero while one is
	failed := 0           // failed rounds in a row
	log := w.cfg.Logger
	for first := true; first || wait.For(ctx, pause.Next()); first = false {
		older := !without.IsZero() && time.Since(without) >= w.timing.older
		s := w.findSource(ctx, w.nodesToAsk(last), older)
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
				log.Warn("no node reports routes; calls use the last known ones", "error", w.routesError(nil))
			}
			continue
		}
		if last != s.address {
			log.Info("the routes come from another node", "address", s.address)
		}
		last, without, failed = s.address, time.Time{}, 0
		clear(w.failures)
		began := time.Now()
		err := w.followSource(ctx, s)
		if time.Since(began) > retryBackoff.Last {
			pause.Reset()
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errStalled):
			log.Warn("calls wait for new routes; asking other nodes", "address", s.address)
		case !errors.Is(err, errRotate):
			log.Info("the node that reported the routes is lost; asking others", "address", s.address, "error",
				(&askError{s.address, err}).Error())
			without = time.Now()
		}
	}
}

// errRefused reports that all nodes have refused to report the routes.
var errRefused = errors.New("all nodes refuse")

// awaitFirst blocks until the first routes have come. Pass its error to explainDial when run has returned.
func (w *routeWatcher) awaitFirst(ctx context.Context) error {
	select {
	case <-w.ready:
		return nil
	case <-w.refused:
		return errRefused
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// warnAfter is the number of failed rounds after which a warning is logged.
const warnAfter = 5

// The reasons to leave a node although its stream is still open.
var (
	errStalled = errors.New("calls wait for other routes than those that the node reports")
	errRotate  = errors.New("it is time to watch another node")
	errSilent  = errors.New("it does not answer any more")
)

// heartbeat is the interval at which a node must report that it is alive. silenceOf returns the time without a
// message after which the node counts as silent.
const heartbeat = time.Second

func silenceOf(heartbeat time.Duration) time.Duration { return 5 * heartbeat / 2 }

// followSource stores a node's reports in the table until the stream ends or there is a reason to watch another node.
// It closes the stream before it returns.
func (w *routeWatcher) followSource(ctx context.Context, s *routeSource) error {
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
	w.replaceRoutes(s.first)
	limit := s.first.silence // constant, because a node does not change its heartbeat
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
			next, err := parseRoutes(m)
			if err != nil {
				return err
			}
			w.replaceRoutes(next)
		case <-silence.C:
			return errSilent
		case err := <-ended:
			return err
		case <-w.table.stalled:
			if now := time.Now(); !now.Before(w.nextSwitch) {
				w.nextSwitch = now.Add(w.switches.Next())
				return errStalled
			}
		case <-rotate.C:
			return errRotate
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replaceRoutes replaces the routes.
func (w *routeWatcher) replaceRoutes(next *routes) {
	former := w.table.current.Load()
	if w.table.replaceRoutes(next) {
		w.switches.Reset()
	}
	switch {
	case former == nil:
		close(w.ready)
	case next.generation < former.generation:
		w.cfg.Logger.Warn("the shard map is older than the previous one: was the cluster recreated?", "generation",
			next.generation, "before", former.generation)
	}
}

// nodesToAsk returns the nodes to ask, in order: first the nodes in the routes, then those of the
// configuration, each in random order, and finally the one that was watched last.
func (w *routeWatcher) nodesToAsk(last string) []string {
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
func (w *routeWatcher) allRefuse() bool {
	return !slices.ContainsFunc(w.cfg.Addresses, func(a string) bool {
		f := w.failures[a]
		return f == nil || !f.isPermanent()
	})
}

// explainDial returns the error of Dial.
func (w *routeWatcher) explainDial(err error) error {
	if errors.Is(err, errRefused) {
		err = nil
	}
	return w.routesError(err)
}

// routesError returns an error that explains why no address of the configuration has reported the routes.
func (w *routeWatcher) routesError(cause error) error {
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
