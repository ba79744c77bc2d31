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
	// looking is between the beginnings of two looks at all shards.
	looking = 2 * time.Millisecond
	// atOnce is for how many shards the clock is read once.
	atOnce = 64
)

// server is a node's part in the shards, as far as it is asked here.
type server interface {
	Serves(shard int) (epoch int64, ok bool)
}

// sampler asks all nodes again and again, of each shard, whether they serve it. They are in
// this process, so there is one clock, and asking is no request. A pause is from the last yes
// of the one to the first yes of the other, so it is never taken for shorter than it was.
type sampler struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu          sync.Mutex
	nodes       []server
	shards      []sampled
	apart, took *sample.Series  // two looks, and one
	pauses      []time.Duration // since await returned them
	// nobody is how many shards nobody serves at present; twice is how often one node said
	// that it serves a shard, then another one, and then the first again.
	nobody, twice int
	news          chan struct{} // closed and replaced when a look has ended
}

// sampled is one shard.
type sampled struct {
	by  server    // who served it when it was served last; nil before
	yes time.Time // before it was asked when it said so last
	out bool      // it does not any more
}

func newSampler(shards int) *sampler {
	return &sampler{shards: make([]sampled, shards), nobody: shards, news: make(chan struct{}),
		apart: sample.Millis("between two looks"), took: sample.Millis("a look")}
}

// start samples until close.
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

// look asks about every shard once.
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

// over ends a pause, if there is one.
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

// await returns the pauses since the last call, once a look has found every shard served by
// its owner, and owners are whom wanted gives then.
func (s *sampler) await(ctx context.Context, wanted func() (owners []server, ok bool)) ([]time.Duration, error) {
	for {
		s.mu.Lock()
		news := s.news
		nobody := s.nobody
		if nobody == 0 { // or it would be in the way of those who are about to serve
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

// served reports whether the last look found each shard at its owner. The lock is held.
func (s *sampler) served(owners []server) bool {
	for shard, owner := range owners {
		if at := s.shards[shard]; at.by != owner || at.out {
			return false
		}
	}
	return true
}

// forget drops a node that has stopped.
func (s *sampler) forget(n server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = slices.DeleteFunc(slices.Clone(s.nodes), func(other server) bool { return other == n })
}
