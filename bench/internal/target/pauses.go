package target

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/bench/internal/sample"
)

const (
	// looking is the interval between two looks at all shards.
	looking = 2 * time.Millisecond
	// atOnce is the number of shards per reading of the clock.
	atOnce = 64
)

// server is the part of a node that answers for the shards.
type server interface {
	Serves(shard int) (epoch int64, ok bool)
}

// sampler repeatedly calls all nodes for each shard and records which one serves it. The nodes are in this
// process, so there is one clock, and a call sends no request. A pause lasts from the last positive answer of
// one node to the first of another, so it is never measured as too short.
type sampler struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu          sync.Mutex
	nodes       []server
	shards      []sampled
	apart, took *sample.Series  // between two looks, duration of one
	pauses      []time.Duration // since the last return of await
	// nobody is the number of shards that no node serves at present. twice counts how often one node served a
	// shard, then another one, and then the first one again.
	nobody, twice int
	news          chan struct{} // closed and replaced after each look
}

// sampled is the state of one shard.
type sampled struct {
	by  server    // the node that served it last; nil before the first
	yes time.Time // before the call that last returned true
	out bool      // by does not serve it any more
}

func newSampler(shards int) *sampler {
	return &sampler{shards: make([]sampled, shards), nobody: shards, news: make(chan struct{}),
		apart: sample.Millis("between two looks"), took: sample.Millis("a look")}
}

// start samples until close is called.
func (s *sampler) start(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	s.wg.Go(func() {
		tick := time.NewTicker(looking)
		defer tick.Stop()
		var before time.Time
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			began := time.Now()
			s.look()
			if !before.IsZero() {
				s.apart.Add(began.Sub(before))
			}
			before = began
			s.took.Add(time.Since(began))
		}
	})
}

func (s *sampler) close() {
	s.stop()
	s.wg.Wait()
}

// follow adds a node.
func (s *sampler) follow(n server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = append(s.nodes, n)
}

// look calls the nodes for every shard once.
func (s *sampler) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var asked time.Time
	for shard := range s.shards {
		if shard%atOnce == 0 {
			asked = time.Now()
		}
		at := &s.shards[shard]
		held := at.by != nil && serves(at.by, shard)
		if held {
			at.over(s)
			at.yes = asked
		} else if at.by != nil && !at.out {
			at.out = true
			s.nobody++
		}
		for _, n := range s.nodes {
			if n == at.by || !serves(n, shard) {
				continue
			}
			if held && serves(at.by, shard) {
				s.twice++
			}
			if at.by == nil {
				s.nobody--
			} else if at.over(s); held {
				s.pauses = append(s.pauses, time.Since(at.yes))
			}
			*at = sampled{by: n, yes: asked}
			break
		}
	}
	close(s.news)
	s.news = make(chan struct{})
}

// over ends the pause, if there is one.
func (at *sampled) over(s *sampler) {
	if at.out {
		at.out = false
		s.nobody--
		s.pauses = append(s.pauses, time.Since(at.yes))
	}
}

func serves(n server, shard int) bool {
	_, ok := n.Serves(shard)
	return ok
}

// await blocks until a look has found every shard served by the owner that wanted returns. It returns the
// pauses since its last return.
func (s *sampler) await(ctx context.Context, wanted func() (owners []server, ok bool)) ([]time.Duration, error) {
	for {
		s.mu.Lock()
		news := s.news
		nobody := s.nobody
		if nobody == 0 { // otherwise it would slow the nodes that are about to serve
			if owners, ok := wanted(); ok && s.served(owners) {
				out := s.pauses
				s.pauses = nil
				s.mu.Unlock()
				return out, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d shards are served by nobody: %w", nobody, ctx.Err())
		}
	}
}

// served reports whether the last look found each shard at its owner. The caller holds mu.
func (s *sampler) served(owners []server) bool {
	for shard, owner := range owners {
		if at := s.shards[shard]; at.by != owner || at.out {
			return false
		}
	}
	return true
}

// forget removes a node that has stopped.
func (s *sampler) forget(n server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = slices.DeleteFunc(slices.Clone(s.nodes), func(other server) bool { return other == n })
}
