package termscope

import (
	"context"
	"sync"

	"github.com/goverse/goverse/internal/wait"
)

// Limit ends the contexts of a Scope at the latest. Its methods are safe for concurrent use.
type Limit interface {
	// Within returns a context that ends with ctx and with the limit. end ends it earlier. release ends it too and
	// frees what Within added to the limit; it may take locks.
	Within(ctx context.Context) (_ context.Context, end context.CancelCauseFunc, release func())
	// EndCause returns the reason why the limit is over, or nil. It neither blocks nor takes Owner.Lock.
	EndCause() error
}

// EndOf returns a Limit that is over when ctx ends.
func EndOf(ctx context.Context) Limit { return contextLimit{ctx} }

type contextLimit struct{ ctx context.Context }

func (l contextLimit) Within(ctx context.Context) (_ context.Context, end context.CancelCauseFunc, release func()) {
	ctx, end = wait.MergeContextsCause(ctx, l.ctx)
	return ctx, end, func() { end(nil) }
}

func (l contextLimit) EndCause() error { return context.Cause(l.ctx) }

// ending is the moment at which contexts end, and these contexts. It keeps none that is no longer used: a process can
// lead ten thousand elections, and few of them run a function at a time. It is safe for concurrent use.
type ending struct {
	limit Limit

	mu    sync.Mutex
	cause error           // nil until come was called
	made  context.Context // returned by context; made on demand
	bound []*bound
}

// bound is a context that ends with an ending.
type bound struct {
	end   context.CancelCauseFunc
	index int // in ending.bound; -1 once it has left it
}

// bind returns a context that ends with ctx and with the ending. stop ends it and forgets it.
func (e *ending) bind(ctx context.Context) (_ context.Context, stop func()) {
	if over := e.knownCause(); over != nil { // the limit may be over since, for another reason
		ctx, end := context.WithCancelCause(ctx)
		end(over)
		return ctx, func() {}
	}
	ctx, end, release := e.limit.Within(ctx)
	b := &bound{end, -1}
	e.mu.Lock()
	over := e.cause
	if over == nil {
		b.index, e.bound = len(e.bound), append(e.bound, b)
	}
	e.mu.Unlock()
	if over != nil {
		end(over)
	}
	return ctx, func() {
		e.forget(b)
		release()
	}
}

func (e *ending) forget(b *bound) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.index < 0 {
		return
	}
	n := len(e.bound) - 1
	last := e.bound[n]
	last.index, e.bound[b.index] = b.index, last
	b.index, e.bound[n], e.bound = -1, nil, e.bound[:n]
	if n == 0 {
		e.bound = nil
	}
}

// context returns a context that ends with the ending, the same one each time.
func (e *ending) context() context.Context {
	e.mu.Lock()
	made := e.made
	e.mu.Unlock()
	if made != nil {
		return made
	}
	ctx, stop := e.bind(context.Background())
	e.mu.Lock()
	if made = e.made; made == nil {
		e.made = ctx
	}
	e.mu.Unlock()
	if made != nil { // another caller made it meanwhile
		stop()
		return made
	}
	return ctx
}

// come ends the contexts for the reason why, or for the limit's if that is over. Only the first call counts.
func (e *ending) come(why error) {
	if first := e.limit.EndCause(); first != nil {
		why = first
	}
	e.mu.Lock()
	if e.cause != nil {
		e.mu.Unlock()
		return
	}
	e.cause = why
	ended := e.bound
	e.bound = nil
	for _, b := range ended {
		b.index = -1
	}
	e.mu.Unlock()
	for _, b := range ended {
		b.end(why)
	}
}

// endCause returns the reason why the contexts have ended, or nil.
func (e *ending) endCause() error {
	if cause := e.knownCause(); cause != nil {
		return cause
	}
	return e.limit.EndCause()
}

func (e *ending) knownCause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}
