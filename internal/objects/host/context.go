package host

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// turnContext is the context of one turn. The parts that other contexts and gRPC's metadata need are created on
// first use; most calls never use them.
type turnContext struct {
	host  *Host
	shard int
	chain []uint64
	turn  uint64
	told  bool // the turn's number may have been sent with calls
	over  bool // the turn has ended; the shard's lock protects told and over
	// caller ends the turn when it ends; nil if only the deadline does. Its values are not visible to the turn.
	caller context.Context

	mu       sync.Mutex
	deadline time.Time     // zero means none
	timeout  time.Duration // sets deadline when that is first needed; 0 if it is set, or there is none
	call     *Call         // the source of the context's values; nil for a tick, and after the turn
	cause    error         // why it has ended; nil before that
	full     atomic.Pointer[fullContext]
	longer   atomic.Pointer[[]uint64] // the chain including the turn, once requested
}

// fullContext is an ordinary context that ends with all that ends a turn.
type fullContext struct {
	context.Context
	cancel   context.CancelCauseFunc
	releases []func() bool
	stop     func()
}

// errTurnOver is the cause with which the context of a turn ends when the turn does.
var errTurnOver = errors.New("the call has ended")

// Deadline implements context.Context.
func (c *turnContext) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by(), !c.deadline.IsZero()
}

// by returns the deadline, or zero if there is none. The caller holds the lock.
func (c *turnContext) by() time.Time {
	if c.timeout > 0 {
		c.deadline, c.timeout = time.Now().Add(c.timeout), 0
	}
	return c.deadline
}

// String keeps fmt from reading fields that change concurrently.
func (c *turnContext) String() string { return "the context of a turn" }

// Done implements context.Context.
func (c *turnContext) Done() <-chan struct{} { return c.asked().Done() }

// Err implements context.Context.
func (c *turnContext) Err() error { return c.asked().Err() }

// chainKey is the context key of the chain of turns.
type chainKey struct{}

// Value implements context.Context.
func (c *turnContext) Value(key any) any {
	if _, ok := key.(chainKey); ok {
		return c.tellChain()
	}
	return c.asked().Value(key)
}

// tellChain returns the chain for calls that the turn makes. From then on the shard recognises the turn's
// number, until the turn ends.
func (c *turnContext) tellChain() []uint64 {
	if chain := c.longer.Load(); chain != nil {
		return *chain
	}
	chain := chainOf(c.chain, c.turn)
	s := &c.host.shards[c.shard]
	s.mu.Lock()
	if !c.over && c.turn != 0 {
		c.told = true
		s.expose(c.turn)
	}
	s.mu.Unlock()
	c.longer.Store(&chain)
	return chain
}

// chainOf returns the chain with one turn appended.
func chainOf(chain []uint64, turn uint64) []uint64 { return append(slices.Clip(chain), turn) }

// ChainOf returns the turns that wait for calls made with ctx.
func ChainOf(ctx context.Context) []uint64 {
	chain, _ := ctx.Value(chainKey{}).([]uint64)
	return chain
}

// WithChain returns ctx with the chain of turns that wait for calls made with it.
func WithChain(ctx context.Context, chain []uint64) context.Context {
	if len(chain) == 0 {
		return ctx
	}
	return context.WithValue(ctx, chainKey{}, chain)
}

// asked returns the full context, and creates it if necessary.
func (c *turnContext) asked() *fullContext {
	if f := c.full.Load(); f != nil {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.full.Load(); f != nil {
		return f
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	f := &fullContext{cancel: cancel, stop: func() {}}
	if c.cause != nil {
		cancel(c.cause)
		f.Context = ctx
		c.full.Store(f)
		return f
	}
	if deadline := c.by(); !deadline.IsZero() {
		ctx, f.stop = context.WithDeadline(ctx, deadline)
	}
	if caller := c.caller; caller != nil {
		f.releases = append(f.releases, context.AfterFunc(caller, func() {
			if !errors.Is(caller.Err(), context.DeadlineExceeded) { // the turn's own deadline ends it anyway
				cancel(context.Cause(caller))
			}
		}))
	}
	owned := c.host.cfg.Shards.Drained(c.shard)
	if c.call != nil {
		if c.call.Method.Stream != nil && !c.call.inside {
			owned = c.host.cfg.Shards.Staying(c.shard)
		}
		ctx = c.call.values(ctx)
	}
	f.releases = append(f.releases, context.AfterFunc(owned, func() { cancel(context.Cause(owned)) }))
	f.Context = ctx
	c.full.Store(f)
	return f
}

// wasAsked reports whether the full context was created, so that other code may refer to the call.
func (c *turnContext) wasAsked() bool { return c.full.Load() != nil }

// values adds the values that gRPC provides in the context of a method.
func (c *Call) values(ctx context.Context) context.Context {
	if c.stream != nil {
		ctx = grpc.NewContextWithServerTransportStream(ctx, grpc.ServerTransportStreamFromContext(c.stream.Context()))
	} else {
		ctx = grpc.NewContextWithServerTransportStream(ctx, &c.headers)
	}
	if c.Metadata != nil {
		ctx = metadata.NewIncomingContext(ctx, c.Metadata)
	}
	if c.Peer != nil {
		ctx = peer.NewContext(ctx, c.Peer)
	}
	return ctx
}

// cut ends the context before its turn ends.
func (c *turnContext) cut(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutFor(cause)
}

// cutFor is cut for callers that hold the lock.
func (c *turnContext) cutFor(cause error) {
	if c.cause == nil {
		c.cause = cause
	}
	if f := c.full.Load(); f != nil {
		f.cancel(c.cause)
	}
}

// end ends the context with its turn.
func (c *turnContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutFor(errTurnOver)
	c.call = nil
	if f := c.full.Load(); f != nil && f.stop != nil {
		for _, release := range f.releases {
			release()
		}
		f.stop()
		f.stop = nil
	}
}

// headers collects the metadata of a reply. It implements grpc.ServerTransportStream.
type headers struct {
	method *Method

	mu              sync.Mutex
	sent            bool
	header, trailer metadata.MD
}

// Method implements grpc.ServerTransportStream.
func (t *headers) Method() string { return t.method.Name }

// SetHeader implements grpc.ServerTransportStream.
func (t *headers) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent {
		return errors.New("the header was sent already")
	}
	t.header = metadata.Join(t.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream. The header of a unary call is sent with its reply.
func (t *headers) SendHeader(md metadata.MD) error {
	if err := t.SetHeader(md); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = true
	return nil
}

// taken returns the headers and trailers that were set.
func (t *headers) taken() (header, trailer metadata.MD) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.header, t.trailer
}

// SetTrailer implements grpc.ServerTransportStream.
func (t *headers) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trailer = metadata.Join(t.trailer, md)
	return nil
}
