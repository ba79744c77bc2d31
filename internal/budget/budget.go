package budget

import (
	"net"
	"reflect"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/goverse/goverse/cluster/objects"
)

// Budget is how many bytes may wait in this node. All methods are safe for concurrent use, and a nil Budget has no
// limit.
type Budget struct {
	limit   int64
	refused atomic.Int64

	mu   sync.Mutex
	used int64
	by   map[any]int64 // of each connection that holds any
}

// New is a budget of so many bytes; 0: [Default].
func New(limit int64) *Budget {
	if limit <= 0 {
		limit = Default()
	}
	return &Budget{limit: limit, by: map[any]int64{}}
}

// Connection is what a connection is called here: the address of its other end, which is the same value for as long as
// the connection lasts.
func Connection(remote net.Addr) any {
	if remote == nil || !reflect.TypeOf(remote).Comparable() {
		return nil
	}
	return remote
}

// fits reports whether a connection that holds own bytes may hold n more: it may have half of what the others leave.
func fits(limit, used, own, n int64) bool { return own+n <= (limit-(used-own))/2 }

// Take has a connection hold n bytes more, unless that is too much, which is counted as a refusal.
func (b *Budget) Take(connection any, n int64) bool {
	_, ok := b.TakeUpTo(connection, n, n)
	return ok
}

// TakeUpTo is Take of most bytes, or of n where these are too many, and returns how many they are. It is for those who
// need n now and more soon.
func (b *Budget) TakeUpTo(connection any, n, most int64) (taken int64, ok bool) {
	if b == nil {
		return most, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.by[connection]
	switch {
	case fits(b.limit, b.used, own, most):
		taken = most
	case fits(b.limit, b.used, own, n):
		taken = n
	default:
		b.refused.Add(1)
		return 0, false
	}
	b.by[connection], b.used = own+taken, b.used+taken
	return taken, true
}

// Owe has a connection hold n bytes more, whether that is too much or not: it is refused the next ones.
func (b *Budget) Owe(connection any, n int64) { b.Give(connection, -n) }

// Give takes back n bytes of what a connection holds.
func (b *Budget) Give(connection any, n int64) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if left := b.by[connection] - n; left == 0 {
		delete(b.by, connection)
	} else {
		b.by[connection] = left
	}
}

// Over reports whether a connection holds more than it may.
func (b *Budget) Over(connection any) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !fits(b.limit, b.used, b.by[connection], 0)
}

// Figures are a budget's.
type Figures struct{ Limit, Used, Refused int64 }

// Figures are those of now.
func (b *Budget) Figures() Figures {
	if b == nil {
		return Figures{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Figures{Limit: b.limit, Used: b.used, Refused: b.refused.Load()}
}

const tooMuch = "too much of this connection waits in this node: wait for less at a time, or raise " +
	"Objects.MaxWaitingBytes of the node"

// ErrFull is the status of what was refused before it was started.
var ErrFull = objects.Error(codes.ResourceExhausted, objects.ReasonQueueFull, "objects: "+tooMuch)

// ErrUnreceived is the status of a call that was refused before its request was received.
var ErrUnreceived = objects.Error(codes.ResourceExhausted, objects.ReasonQueueFull, "objects: too many requests of "+
	"this connection are being received: have fewer calls under way until their requests have come, or open another "+
	"connection")

// ErrUnread is the status of a stream that is refused to go on: it may have been started.
var ErrUnread = objects.Error(codes.ResourceExhausted, objects.ReasonMayHaveStarted, "objects: the stream is not read "+
	"fast enough, and "+tooMuch)

// Hold is what one stream holds. It is not safe for concurrent use. The zero value holds nothing, of no budget.
type Hold struct {
	budget     *Budget
	connection any
	bytes      int64
}

// Hold is one that holds nothing yet.
func (b *Budget) Hold(connection any) Hold { return Hold{budget: b, connection: connection} }

// Grow has it hold so many bytes, if it holds fewer, and reports whether it may.
func (h *Hold) Grow(to int64) bool {
	if to <= h.bytes {
		return true
	}
	if !h.budget.Take(h.connection, to-h.bytes) {
		return false
	}
	h.bytes = to
	return true
}

// Release gives back all.
func (h *Hold) Release() {
	h.budget.Give(h.connection, h.bytes)
	h.bytes = 0
}
