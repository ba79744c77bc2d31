package host

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/cluster/objects"
	cshard "github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// held is a node's part in the shards, for tests without a cluster.
type held struct {
	mu     sync.Mutex
	shards []heldShard
}

type heldShard struct {
	serves  bool
	epoch   int64
	running int
	quiet   chan struct{} // closed when nothing runs any more; nil if no test waits for it
	served  chan struct{} // closed when it is served, or elsewhere
	ctx     context.Context
	cancel  context.CancelCauseFunc
	away    bool
}

func newHeld(count int, serves bool) *held {
	s := &held{shards: make([]heldShard, count)}
	for n := range s.shards {
		s.shards[n].served = make(chan struct{})
		if serves {
			s.acquire(n)
		}
	}
	return s
}

func (s *held) acquire(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.shards[n]
	h.serves, h.away = true, false
	h.epoch++
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	close(h.served)
}

// release does the same as consensusmanager.Shards for a shard that moves.
func (s *held) release(ctx context.Context, h *Host, n int, cause error) {
	s.mu.Lock()
	one := &s.shards[n]
	one.serves, one.away = false, true
	one.served = make(chan struct{})
	var quiet chan struct{}
	if one.running > 0 {
		quiet = make(chan struct{})
		one.quiet = quiet
	}
	s.mu.Unlock()
	h.Leaving(n)
	if quiet != nil {
		select {
		case <-quiet:
		case <-ctx.Done():
			one.cancel(cause)
			<-quiet
		}
	}
	one.cancel(cause)
	if h.Occupied(n) {
		h.Leave(context.Background(), n)
	}
}

func (s *held) Count() int { return len(s.shards) }

func (s *held) serves(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards[n].serves
}

func (s *held) Enter(n int) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shards[n].serves {
		return 0, false
	}
	s.shards[n].running++
	return s.shards[n].epoch, true
}

func (s *held) Reenter(n int) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards[n].running == 0 || s.shards[n].ctx.Err() != nil {
		return 0, false
	}
	s.shards[n].running++
	return s.shards[n].epoch, true
}

func (s *held) Holds(n int, epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.shards[n]
	return h.epoch == epoch && (h.ctx.Err() == nil || errors.Is(context.Cause(h.ctx), cshard.ErrNotOwner))
}

func (s *held) Exit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.shards[n]
	h.running--
	if h.running == 0 && h.quiet != nil {
		close(h.quiet)
		h.quiet = nil
	}
}

func (s *held) Drained(n int) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards[n].ctx
}

func (s *held) Staying(n int) context.Context { return s.Drained(n) }

func (s *held) Await(ctx context.Context, n int, seen int64) (int64, error) {
	s.mu.Lock()
	served, away := s.shards[n].served, s.shards[n].away
	s.mu.Unlock()
	if away && seen != elsewhere {
		return elsewhere, cshard.ErrNotOwner
	}
	select {
	case <-served:
		return 0, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shards[n].away {
		seen = -1
	}
	return seen, ctx.Err()
}

// comes assigns the shard to this node by a newer map; the former owner has yet to release it.
func (s *held) comes(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards[n].away = false
}

// elsewhere is the generation of the map that assigns a shard to another node.
const elsewhere = 5

func (s *held) History() int { return 0 }

// testCalls holds calls for reuse, as a router does.
var testCalls = sync.Pool{New: func() any { return &Call{} }}

func invoke(ctx context.Context, h *Host, method *Method, key string, request, response proto.Message) error {
	c := testCalls.Get().(*Call)
	c.Method, c.Key, c.Shard, c.Request, c.Response = method, key, cshard.Of(key, len(h.shards)), request, response
	err := h.Invoke(ctx, c)
	if !c.Abandoned() {
		c.Reset()
		testCalls.Put(c)
	}
	return err
}

type registrar struct{ all []hosted.Service }

func (r *registrar) Objects() *objects.Objects { return (*objects.Objects)(hosted.NewHandle(r)) }

func (r *registrar) Register(s hosted.Service) { r.all = append(r.all, s) }

func (*registrar) At(string) grpc.ClientConnInterface { return nil }

func (*registrar) Find(string) (owner string, here []objects.Activity) { return "", nil }

func (*registrar) Stats() (none objects.Stats) { return none }
