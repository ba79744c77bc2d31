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

// Deadline is the end of a call's time. It can be computed when it is first needed, because reading the clock takes a
// tenth of the time of a call in memory. The zero value means none.
type Deadline struct {
	At      time.Time     // zero means none, unless Timeout is set
	Timeout time.Duration // sets At when that is first needed; 0 if it is set, or there is none
}

// Time returns the deadline, or zero if there is none.
func (d *Deadline) Time() time.Time {
	if d.Timeout > 0 {
		d.At, d.Timeout = time.Now().Add(d.Timeout), 0
	}
	return d.At
}

// turnContext is the context of one turn. The parts that other contexts and gRPC's metadata need are created on
// first use; most calls never use them.
type turnContext struct {
	shard   *shard
	chain   []uint64
	turn    uint64
	exposed bool // the turn's number may have been sent with calls
	over    bool // the turn has ended; the shard's lock protects exposed and over
	// caller ends the turn when it ends; nil if only the deadline does. Its values are not visible to the turn.
	caller context.Context

	mu           sync.Mutex
	deadline     Deadline
	call         *Call // the source of the context's values; nil for a tick, and after the turn
	cause        error // why it has ended; nil before that
	full         atomic.Pointer[fullContext]
	exposedChain atomic.Pointer[[]uint64] // the chain including the turn, once requested
}

// fullContext is an ordinary context that ends with all that ends a turn.
type fullContext struct {
	context.Context
	cancel   context.CancelCauseFunc
	releases []func() bool
	stop     func()
	headers  replyHeaders
}

// errTurnOver is the cause with which the context of a turn ends when the turn does.
var errTurnOver = errors.New("the call has ended")

// Deadline implements context.Context.
func (c *turnContext) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.deadline.Time()
	return at, !at.IsZero()
}

// String keeps fmt from reading fields that change concurrently.
func (c *turnContext) String() string { return "the context of a turn" }

// Done implements context.Context.
func (c *turnContext) Done() <-chan struct{} { return c.ensureFull().Done() }

// Err implements context.Context.
func (c *turnContext) Err() error { return c.ensureFull().Err() }

// chainKey is the context key of the chain of turns.
type chainKey struct{}

// Value implements context.Context.
func (c *turnContext) Value(key any) any {
	if _, ok := key.(chainKey); ok {
		return c.exposeChain()
	}
	return c.ensureFull().Value(key)
}

// exposeChain returns the chain for calls that the turn makes. From then on the shard recognises the turn's
// number, until the turn ends.
func (c *turnContext) exposeChain() []uint64 {
	if chain := c.exposedChain.Load(); chain != nil {
		return *chain
	}
	chain := chainOf(c.chain, c.turn)
	c.shard.mu.Lock()
	if !c.over && c.turn != 0 {
		c.exposed = true
		c.shard.ids.exposeID(c.turn)
	}
	c.shard.mu.Unlock()
	c.exposedChain.Store(&chain)
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

// ensureFull returns the full context, and creates it if necessary.
func (c *turnContext) ensureFull() *fullContext {
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
	if deadline := c.deadline.Time(); !deadline.IsZero() {
		ctx, f.stop = context.WithDeadline(ctx, deadline)
	}
	if caller := c.caller; caller != nil {
		f.releases = append(f.releases, context.AfterFunc(caller, func() {
			if !errors.Is(caller.Err(), context.DeadlineExceeded) { // the turn's own deadline ends it anyway
				cancel(context.Cause(caller))
			}
		}))
	}
	shards := c.shard.host.cfg.Shards
	owned := shards.Drained(c.shard.number)
	if c.call != nil {
		if c.call.Method.Stream != nil && !c.call.awaitedByTurn {
			owned = shards.Staying(c.shard.number)
		}
		ctx = c.call.withValues(ctx, &f.headers)
	}
	f.releases = append(f.releases, context.AfterFunc(owned, func() { cancel(context.Cause(owned)) }))
	f.Context = ctx
	c.full.Store(f)
	return f
}

// replyMetadata returns the metadata that the method has set for its reply.
func (c *turnContext) replyMetadata() (header, trailer metadata.MD) {
	if f := c.full.Load(); f != nil { // otherwise the method cannot have set any
		return f.headers.collected()
	}
	return nil, nil
}

// withValues adds the values that gRPC provides in the context of a method.
func (c *Call) withValues(ctx context.Context, headers *replyHeaders) context.Context {
	if c.stream != nil {
		ctx = grpc.NewContextWithServerTransportStream(ctx, grpc.ServerTransportStreamFromContext(c.stream.Context()))
	} else {
		headers.method = c.Method
		ctx = grpc.NewContextWithServerTransportStream(ctx, headers)
	}
	if c.Metadata != nil {
		ctx = metadata.NewIncomingContext(ctx, c.Metadata)
	}
	if c.Peer != nil {
		ctx = peer.NewContext(ctx, c.Peer)
	}
	return ctx
}

// endEarly ends the context before its turn ends.
func (c *turnContext) endEarly(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endEarlyLocked(cause)
}

// endEarlyLocked is endEarly for callers that hold the lock.
func (c *turnContext) endEarlyLocked(cause error) {
	if c.cause == nil {
		c.cause = cause
	}
	if f := c.full.Load(); f != nil {
		f.cancel(c.cause)
	}
}

// endTurn ends the context with its turn.
func (c *turnContext) endTurn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endEarlyLocked(errTurnOver)
	c.call = nil
	if f := c.full.Load(); f != nil && f.stop != nil {
		for _, release := range f.releases {
			release()
		}
		f.stop()
		f.stop = nil
	}
}

// replyHeaders collects the metadata of a reply. It implements grpc.ServerTransportStream.
type replyHeaders struct {
	method *Method

	mu              sync.Mutex
	sent            bool
	header, trailer metadata.MD
}

// Method implements grpc.ServerTransportStream.
func (t *replyHeaders) Method() string { return t.method.Name }

// SetHeader implements grpc.ServerTransportStream.
func (t *replyHeaders) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent {
		return errors.New("the header was sent already")
	}
	t.header = metadata.Join(t.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream. The header of a unary call is sent with its reply.
func (t *replyHeaders) SendHeader(md metadata.MD) error {
	if err := t.SetHeader(md); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = true
	return nil
}

// collected returns the metadata that was set.
func (t *replyHeaders) collected() (header, trailer metadata.MD) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.header, t.trailer
}

// SetTrailer implements grpc.ServerTransportStream.
func (t *replyHeaders) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trailer = metadata.Join(t.trailer, md)
	return nil
}
