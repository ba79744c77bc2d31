package leasequeue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/test/schedule"
)

func leaseName(id int64) string { return strconv.FormatInt(id, 16) }

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// actor is a caller on a host that wants entries, one after the other.
type actor struct {
	h    *host
	name string
	rand *rand.Rand
}

func newActor(h *host, i int) *actor {
	name := fmt.Sprint(h.name, "/", i)
	return &actor{h: h, name: name, rand: schedule.NewRand(h.w.Seed, name)}
}

// run takes entries until the faults end, and then each of them once more, however long that takes.
func (a *actor) run(ctx context.Context) {
	for {
		select {
		case <-a.h.w.calm:
			for i := 0; i < 3 && a.h.w.idle; i++ {
				// About as long as watches are kept.
				<-time.After(schedule.Between(a.rand, idleTimeout-time.Second, idleTimeout+2*simTTL))
				a.want(ctx, EntrySpec{Name: a.h.w.names[0]}, 0)
			}
			for _, name := range a.h.w.names {
				g, err := a.h.present().queues(name).Acquire(ctx, EntrySpec{Name: name, Value: a.name})
				if err != nil {
					a.h.w.Fail("%s: %s is not available: %v", a.name, name, err)
					return
				}
				a.hold(g)
			}
			return
		case <-time.After(schedule.Between(a.rand, 1, 100*time.Millisecond)):
		}
		if a.rand.IntN(10) == 0 {
			a.wantAll(ctx)
			continue
		}
		p := EntrySpec{Name: a.h.w.names[a.rand.IntN(len(a.h.w.names))], Value: a.name}
		switch a.rand.IntN(10) {
		case 0, 1:
			p.Shared = true
		case 2, 3:
			p.Try = true
		case 4:
			p.Request = true
			a.h.w.Counts.Count("requested")
		}
		patience := time.Duration(0)
		if a.rand.IntN(2) == 0 {
			patience = schedule.Between(a.rand, 1, []time.Duration{10 * time.Millisecond, 100 * time.Millisecond,
				time.Second}[a.rand.IntN(3)])
		}
		a.want(ctx, p, patience)
	}
}

// wantAll takes an entry in every queue at once, so that many go together.
func (a *actor) wantAll(ctx context.Context) {
	a.h.w.Counts.Count("all at once")
	var wg sync.WaitGroup
	for i, name := range a.h.w.names {
		one := &actor{a.h, fmt.Sprint(a.name, "+", i), schedule.NewRand(a.rand.Uint64(), name)}
		wg.Go(func() {
			one.want(ctx, EntrySpec{Name: name, Value: one.name}, schedule.Between(one.rand, time.Millisecond, time.Second))
		})
	}
	wg.Wait()
}

// want takes an entry, holds it for a while, and releases it. It waits for patience, or without a limit if that
// is 0.
func (a *actor) want(ctx context.Context, p EntrySpec, patience time.Duration) {
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	c := a.h.w.checks
	for ctx.Err() == nil {
		q := a.h.present().queues(p.Name)
		asked, at := c.next(), time.Now()
		x, err := q.Enter(ctx, p)
		if err != nil {
			if errors.Is(err, lifecycle.ErrStopped) {
				<-time.After(schedule.Between(a.rand, 1, 10*time.Millisecond)) // until there is another process
				continue
			}
			return
		}
		c.asks(x, asked)
		a.h.w.Log.Addf("", "%s: wants %s (shared %v, try %v) by %s", a.name, p.Name, p.Shared, p.Try, x.Key())
		select {
		case <-x.Decided():
		case <-x.SessionContext().Done():
			continue
		case <-ctx.Done():
			a.h.w.Counts.Count("given up before the answer")
			a.abandon(x)
			return
		}
		switch g, err := x.Outcome(); {
		case err == nil:
			if a.h.w.view != nil {
				a.h.w.view.granted(x, at)
			}
			a.hold(g)
			return
		case errors.Is(err, ErrNotFirst):
			a.h.w.Counts.Count("tried in vain")
			return
		case errors.Is(err, rpctypes.ErrPermissionDenied):
			a.h.w.Counts.Count("refused to enter")
			return
		case errors.Is(err, lifecycle.ErrStopped):
			<-time.After(schedule.Between(a.rand, 1, 10*time.Millisecond))
		case !errors.Is(err, ErrEntryLost) && !errors.Is(err, rpctypes.ErrTooManyOps) && !tooLarge(err):
			c.w.Fail("%s: %v", x.Key(), err)
			return
		}
	}
}

func (a *actor) hold(g *Grant) {
	c, x := a.h.w.checks, g.Entry
	c.granted(g)
	if a.rand.IntN(4) > 0 {
		select {
		case <-time.After(schedule.Between(a.rand, 1, 100*time.Millisecond)):
		case <-g.Context().Done():
		}
	}
	c.released(g)
	if a.rand.IntN(3) == 0 {
		a.abandon(x)
		return
	}
	c.gives(x)
	ctx, cancel := contextFor(schedule.Between(a.rand, 1, 2*simTTL))
	defer cancel()
	if lost, err := g.ReleaseAndWait(ctx); lost == nil && err == nil {
		c.left(x)
	}
}

func (a *actor) abandon(x *Entry) {
	a.h.w.Log.Addf("", "%s: abandons %s", a.name, x.Key())
	a.h.w.checks.gives(x)
	x.Release()
}
