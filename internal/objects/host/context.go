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

// turnContext is the context of one turn. What it takes to end with others, and to answer for gRPC's
// metadata, is made when it is first asked for, which most calls never do.
type turnContext struct {
	host  *Host
	shard int
	chain []uint64
	turn  uint64
	told  bool // others may have been told the number of the turn
	over  bool // the turn is; both are under the lock of the shard
	// caller's end is the turn's; nil: it has none but the deadline. Its values are not the turn's.
	caller context.Context

	mu       sync.Mutex
	deadline time.Time     // zero: none
	timeout  time.Duration // by which the deadline is set when it is first asked for; 0: it is set, or there is none
	call     *Call         // what is asked for; nil for a tick, and when the turn has ended
	cause    error         // it has ended: why
	full     atomic.Pointer[fullContext]
	longer   atomic.Pointer[[]uint64] // the chain with the turn, once it was asked for
}

// fullContext is a context as others make it, which ends with all that a turn ends with.
type fullContext struct {
	context.Context
	cancel   context.CancelCauseFunc
	releases []func() bool
	stop     func()
}

// errTurnOver is why the context of a turn ends when the turn does.
var errTurnOver = errors.New("the call has ended")

// Deadline implements context.Context.
func (c *turnContext) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by(), !c.deadline.IsZero()
}

// by is the deadline, zero if there is none. The lock is held.
func (c *turnContext) by() time.Time {
	if c.timeout > 0 {
		c.deadline, c.timeout = time.Now().Add(c.timeout), 0
	}
	return c.deadline
}

// String is for those that print contexts: fmt would else read what changes meanwhile.
func (c *turnContext) String() string { return "the context of a turn" }

// Done implements context.Context.
func (c *turnContext) Done() <-chan struct{} { return c.asked().Done() }

// Err implements context.Context.
func (c *turnContext) Err() error { return c.asked().Err() }

// chainKey is under what the chain of turns is found in a context.
type chainKey struct{}

// Value implements context.Context.
func (c *turnContext) Value(key any) any {
	if _, ok := key.(chainKey); ok {
		return c.tellChain()
	}
	return c.asked().Value(key)
}

// tellChain returns the chain of what the turn calls. From then on the shard knows it by the number of the turn, until
// that ends.
func (c *turnContext) tellChain() []uint64 {
	if chain := c.longer.Load(); chain != nil {
		return *chain
	}
	chain := chainOf(c.chain, c.turn)
	s := &c.host.shards[c.shard]
	s.mu.Lock()
	if !c.over && c.turn != 0 {
		c.told = true
		s.tell(c.turn)
	}
	s.mu.Unlock()
	c.longer.Store(&chain)
	return chain
}

// chainOf is a chain with one turn more.
func chainOf(chain []uint64, turn uint64) []uint64 { return append(slices.Clip(chain), turn) }

// ChainOf are the turns that wait for what is called with ctx.
func ChainOf(ctx context.Context) []uint64 {
	chain, _ := ctx.Value(chainKey{}).([]uint64)
	return chain
}

// WithChain is ctx with the turns that wait for what is called with it.
func WithChain(ctx context.Context, chain []uint64) context.Context {
	if len(chain) == 0 {
		return ctx
	}
	return context.WithValue(ctx, chainKey{}, chain)
}

// asked is the full context, made now if need be.
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
			if !errors.Is(caller.Err(), context.DeadlineExceeded) { // which comes by itself
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

// wasAsked reports whether somebody may have what belongs to the call.
func (c *turnContext) wasAsked() bool { return c.full.Load() != nil }

// values adds what gRPC finds in the context of a method.
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

// cut ends the context before the turn has ended.
func (c *turnContext) cut(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutFor(cause)
}

// cutFor is cut. The lock is held.
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

// headers are those of a reply. It implements grpc.ServerTransportStream.
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

// SendHeader implements grpc.ServerTransportStream. The header of a unary call goes with its reply.
func (t *headers) SendHeader(md metadata.MD) error {
	if err := t.SetHeader(md); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = true
	return nil
}

// taken are the headers and trailers that were set, for the reply.
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
