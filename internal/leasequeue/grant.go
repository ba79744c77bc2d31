package leasequeue

import (
	"context"
	"errors"
	"slices"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/wait"
)

// Grant represents a granted entry, as its holder sees it. The holder calls Valid before each action, stops its work
// when EndCause returns a reason, and binds work that may outlast the grant to Period. All methods are safe for
// concurrent use.
type Grant struct {
	*Entry
	period *etcdsession.Period

	// Guarded by Engine.mu:

	ctx      context.Context // returned by Context; made on demand
	contexts []boundContext
}

// boundContext is a context that must end with the grant.
type boundContext struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// Valid reports whether the holder may act at this instant. It reads atomics and the clock, and takes no lock.
func (g *Grant) Valid() bool { return g.state.Load().KeyExpected() && g.period.Valid() }

// EndCause returns the reason why the holder must stop, or nil while it may continue, also over a short pause of the
// process. If the session was lost first and the grant revoked later, EndCause returns the cause of the revocation,
// but the cause of the contexts is the session's.
func (g *Grant) EndCause() error {
	if why := g.state.Load().EndCause(); why != nil {
		return why
	}
	return g.period.EndCause()
}

// Period returns the validity period of the session in which the entry was granted. Neither Revoke nor Release ends
// it.
func (g *Grant) Period() *etcdsession.Period { return g.period }

// LeaseID returns the id of the lease that the key is attached to.
func (g *Grant) LeaseID() int64 { return int64(g.run.session.ID()) }

// Context returns a context that ends when the holder must stop, at the session's deadline at the latest, with
// ErrReleased, ErrKeyLost, the cause of Revoke or a session.LostError as its cause.
func (g *Grant) Context() context.Context {
	g.q.e.mu.Lock()
	made := g.ctx
	g.q.e.mu.Unlock()
	if made != nil {
		return made
	}
	ctx, stop := g.bindContext(context.WithCancelCause(g.period.Context()))
	g.q.e.mu.Lock()
	if made = g.ctx; made == nil {
		g.ctx = ctx
	}
	g.q.e.mu.Unlock()
	if made != nil { // another caller made it meanwhile
		stop()
		return made
	}
	return ctx
}

// Within is like wait.MergeContextsCause of ctx and Context, but the context ends before the key is deleted. release
// ends it too, and frees everything that Within added to the grant.
func (g *Grant) Within(ctx context.Context) (_ context.Context, end context.CancelCauseFunc, release func()) {
	ctx, end = wait.MergeContextsCause(ctx, g.period.Context())
	ctx, release = g.bindContext(ctx, end)
	return ctx, end, release
}

// bindContext makes ctx end with the grant. stop ends it and forgets it.
func (g *Grant) bindContext(ctx context.Context, end context.CancelCauseFunc) (_ context.Context, stop func()) {
	g.q.e.mu.Lock()
	g.contexts = append(g.contexts, boundContext{ctx, end})
	g.q.e.mu.Unlock()
	if over := g.EndCause(); over != nil {
		end(over)
	}
	return ctx, func() {
		end(nil)
		g.q.e.mu.Lock()
		defer g.q.e.mu.Unlock()
		g.contexts = slices.DeleteFunc(g.contexts, func(b boundContext) bool { return b.ctx == ctx })
		if len(g.contexts) == 0 {
			g.contexts = nil
		}
	}
}

// endContexts ends the contexts of the grant once Engine.mu is released. It reports whether there are any. The caller
// holds Engine.mu.
func (g *Grant) endContexts() bool {
	if len(g.contexts) == 0 {
		return false
	}
	contexts := slices.Clone(g.contexts)
	g.q.e.queueNotice(func() {
		for _, b := range contexts {
			b.end(g.state.Load().EndCause()) // all end with the first reason, in whatever order the notices are delivered
		}
	})
	return true
}

// Revoke ends the contexts of the grant with cause. The key stands until the entry is released.
func (g *Grant) Revoke(cause error) {
	g.q.e.mu.Lock()
	defer g.q.e.unlock()
	g.applyChange(g.state.Load().Revoke(cause))
}

// ReleaseAndWait releases the entry and blocks until its key is gone, like AwaitDeletion, with the same errors. If the
// grant had ended before, the result lost holds the reason.
func (g *Grant) ReleaseAndWait(ctx context.Context) (lost, err error) {
	if !g.Valid() && g.EndCause() == nil {
		g.period.AwaitConfirmed(ctx) // asks etcd whether the entry was lost while the process was paused
	}
	lost = g.releaseUnlessLost()
	err = g.AwaitDeletion(ctx)
	if errors.Is(lost, lifecycle.ErrStopped) && g.state.Load().DeletionAnswered() {
		lost = nil // the entry was asked to end, and did so in time
	}
	return lost, err
}

// releaseUnlessLost releases the entry in any case. It returns the reason if the grant had ended before.
func (g *Grant) releaseUnlessLost() (lost error) {
	g.q.e.mu.Lock()
	defer g.q.e.unlock()
	if cause := g.EndCause(); cause != nil { // record it, also if it is the session's, which ends the contexts by itself
		revoked, _ := g.state.Load().Revoke(cause)
		g.applyChange(revoked, entrystate.Orders{})
	}
	lost = g.state.Load().Err
	g.applyChange(g.state.Load().Release())
	return lost
}
