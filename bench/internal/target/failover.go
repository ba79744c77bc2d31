package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/state"
)

const (
	// failoverTimeout bounds one failover, its measuring included.
	failoverTimeout = time.Minute
	// settle goes before one: who queued last sends a Range request more after all
	// others have seen it.
	settle = 100 * time.Millisecond
)

// arena is a fleet that agrees, and what measures its failovers.
type arena struct {
	process   *etcdproc.Process
	client    *clientv3.Client // neither a node's nor the lookout's
	keys      state.Keys
	fleet     *fleet.Fleet
	agreement *fleet.Agreement
	lookout   *fleet.Lookout
	newest    *fleet.Node // who queued last; nil at first
}

// failover is what one showed.
type failover struct {
	// agreed is from when the leader's key was known to be gone, by the bare watch or
	// by a node, whichever was first, until the last node named the next leader.
	agreed time.Duration
	// whole is the same from the call that made the leader go.
	whole time.Duration
	// observed are the Range requests at etcd that were neither the next leader's nor
	// of who queued last.
	observed float64
	// tally is what etcd did until all had seen all that followed from it.
	tally etcdproc.Tally
	// cpu is the processor time that this process used meanwhile.
	cpu time.Duration
}

// stop makes the leader stop gracefully; a new node takes its place afterwards.
func (a *arena) stop(ctx context.Context) (failover, error) {
	ctx, cancel := context.WithTimeout(ctx, failoverTimeout)
	defer cancel()
	f, old, err := a.measure(ctx, func(old *fleet.Node) (func(*clientv3.Event) bool, error) {
		return fleet.Deleted(a.keys.Node(old.Address)), old.Stop(ctx)
	})
	if err != nil {
		return f, err
	}
	added, err := a.fleet.Replace(ctx, old)
	if err != nil {
		return f, err
	}
	a.agreement.Join(added)
	a.newest = added
	return f, a.fleet.AwaitAgreement(ctx)
}

// revoke revokes the leader's lease, as if it had crashed: it is mute meanwhile. It
// registers anew and queues at the tail afterwards.
func (a *arena) revoke(ctx context.Context) (failover, error) {
	ctx, cancel := context.WithTimeout(ctx, failoverTimeout)
	defer cancel()
	f, old, err := a.measure(ctx, func(old *fleet.Node) (func(*clientv3.Event) bool, error) {
		lease := old.Session().ID()
		old.Mute()
		_, err := a.client.Revoke(ctx, lease)
		return fleet.Deleted(a.keys.Node(old.Address)), err
	})
	if old != nil {
		old.Unmute()
	}
	if err != nil {
		return f, err
	}
	if err := a.fleet.AwaitAgreement(ctx); err != nil {
		return f, err
	}
	a.agreement.Join(old)
	a.newest = old
	return f, nil
}

// measure makes the leader go. What does that also says by which event all of it is
// over.
func (a *arena) measure(ctx context.Context, do func(old *fleet.Node) (over func(*clientv3.Event) bool, err error)) (
	f failover, old *fleet.Node, err error) {
	old = a.fleet.Leader()
	if old == nil || len(inspect.Snapshot(old.Cluster).Queue) < 2 {
		return f, nil, errors.New("none of the nodes leads, or none is next")
	}
	address := inspect.Snapshot(old.Cluster).Queue[1].Address
	next := a.fleet.Nodes[slices.IndexFunc(a.fleet.Nodes, func(n *fleet.Node) bool { return n.Address == address })]
	key := a.keys.Candidate(int64(old.Session().ID()))
	a.agreement.Leave(old)
	rest(ctx, settle)
	own := a.ranges(next)
	f.tally, err = a.process.Tally(ctx, func() error {
		rest(ctx, pause)
		a.lookout.Forget()
		a.agreement.Expect(address)
		used := cpuTime()
		called := time.Now()
		over, err := do(old)
		if err != nil {
			return err
		}
		change, err := a.agreement.Await(ctx)
		if err != nil {
			return fmt.Errorf("wait until all nodes name %s: %w", address, err)
		}
		gone, err := a.lookout.Await(ctx, fleet.Deleted(key))
		if err != nil {
			return fmt.Errorf("wait until %s is gone: %w", key, err)
		}
		from := gone.At
		if change.First.Before(from) {
			from = change.First
		}
		f.agreed, f.whole = change.Last.Sub(from), change.Last.Sub(called)
		last, err := a.lookout.Await(ctx, over)
		if err != nil {
			return fmt.Errorf("wait for what follows: %w", err)
		}
		err = a.fleet.AwaitRevision(ctx, last.Kv.ModRevision, old)
		f.cpu = cpuTime() - used
		return err
	})
	f.observed = f.tally.Ranges - float64(a.ranges(next)-own)
	return f, old, err
}

// ranges are the Range requests that were sent by next and by who queued last.
func (a *arena) ranges(next *fleet.Node) int64 {
	n := next.Ranges()
	if a.newest != nil && a.newest != next {
		n += a.newest.Ranges()
	}
	return n
}
