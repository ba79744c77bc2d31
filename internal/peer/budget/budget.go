package budget

import (
	"context"
	"net"
	"reflect"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"

	"google.golang.org/grpc/peer"
)

// Budget limits the bytes that may wait in this node. All methods are safe for concurrent use. A nil Budget has
// no limit.
type Budget struct {
	limit   int64
	refused atomic.Int64

	mu           sync.Mutex
	used         int64
	byConnection map[any]int64 // by connection, for those that hold any
}

// New returns a Budget of that many bytes; 0 means [Default].
func New(limit int64) *Budget {
	if limit <= 0 {
		limit = Default()
	}
	return &Budget{limit: limit, byConnection: map[any]int64{}}
}

// ConnectionOf returns the identity of a call's connection for a Budget, or nil if it has none.
func ConnectionOf(ctx context.Context) any {
	if p, ok := peer.FromContext(ctx); ok {
		return ConnectionID(p.Addr)
	}
	return nil
}

// ConnectionID returns the identity of a connection for a Budget: its remote address, which is the same value for
// as long as the connection lasts.
func ConnectionID(remote net.Addr) any {
	if remote == nil || !reflect.TypeOf(remote).Comparable() {
		return nil
	}
	return remote
}

// mayHold reports whether a connection that holds own bytes may hold n more. It may hold half of what the others
// leave.
func mayHold(limit, used, own, n int64) bool { return own+n <= (limit-(used-own))/2 }

// Charge charges n bytes to a connection. If they are too many, it returns false and counts a refusal.
func (b *Budget) Charge(connection any, n int64) bool {
	_, ok := b.ChargeUpTo(connection, n, n)
	return ok
}

// ChargeUpTo is like Charge for a range of sizes: it charges the larger number, most, if that is allowed, and otherwise
// n. It returns the number charged. It is for callers that need n bytes now and more soon.
func (b *Budget) ChargeUpTo(connection any, n, most int64) (taken int64, ok bool) {
	if b == nil {
		return most, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byConnection[connection]
	switch {
	case mayHold(b.limit, b.used, own, most):
		taken = most
	case mayHold(b.limit, b.used, own, n):
		taken = n
	default:
		b.refused.Add(1)
		return 0, false
	}
	b.byConnection[connection], b.used = own+taken, b.used+taken
	return taken, true
}

// ChargeAnyway charges n bytes to a connection even if they are too many. Further bytes are then refused.
func (b *Budget) ChargeAnyway(connection any, n int64) { b.Release(connection, -n) }

// Release releases n bytes of a connection.
func (b *Budget) Release(connection any, n int64) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if left := b.byConnection[connection] - n; left == 0 {
		delete(b.byConnection, connection)
	} else {
		b.byConnection[connection] = left
	}
}

// OverLimit reports whether a connection holds more than it may.
func (b *Budget) OverLimit(connection any) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !mayHold(b.limit, b.used, b.byConnection[connection], 0)
}

// Usage are the numbers of a Budget, in bytes and refusals.
type Usage struct{ Limit, Used, Refused int64 }

// Usage returns the present numbers.
func (b *Budget) Usage() Usage {
	if b == nil {
		return Usage{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Usage{Limit: b.limit, Used: b.used, Refused: b.refused.Load()}
}

const tooMuch = "too much of this connection waits in this node: wait for less at a time, or raise " +
	"Objects.MaxWaitingBytes of the node"

// ErrFull is the status of calls that were refused before they were started.
var ErrFull = hosted.Error(codes.ResourceExhausted, objects.ReasonQueueFull, "objects: "+tooMuch)

// ErrUnreceived is the status of calls that were refused before their request was received.
var ErrUnreceived = hosted.Error(codes.ResourceExhausted, objects.ReasonQueueFull, "objects: too many requests of "+
	"this connection are being received: have fewer calls under way until their requests have come, or open another "+
	"connection")

// ErrUnread is the status of a stream that may not continue. Its call may have been started.
var ErrUnread = hosted.Error(codes.ResourceExhausted, objects.ReasonMayHaveStarted, "objects: the stream is not read "+
	"fast enough, and "+tooMuch)

// Hold counts the bytes of one stream. It is not safe for concurrent use. The zero value has no limit.
type Hold struct {
	budget     *Budget
	connection any
	bytes      int64
}

// NewHold returns a Hold without bytes.
func (b *Budget) NewHold(connection any) Hold { return Hold{budget: b, connection: connection} }

// GrowTo raises the hold to that many bytes, and reports whether the budget allows it. It never lowers the hold.
func (h *Hold) GrowTo(to int64) bool {
	if to <= h.bytes {
		return true
	}
	if !h.budget.Charge(h.connection, to-h.bytes) {
		return false
	}
	h.bytes = to
	return true
}

// Release releases all bytes.
func (h *Hold) Release() {
	h.budget.Release(h.connection, h.bytes)
	h.bytes = 0
}
