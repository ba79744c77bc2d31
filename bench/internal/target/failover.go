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
	// failoverTimeout limits one failover, including its measurement.
	failoverTimeout = time.Minute
	// settle is the pause before a failover: the node that queued last sends one more Range request after all
	// others have seen it.
	settle = 100 * time.Millisecond
)

// arena is a fleet in agreement, with the tools that measure its failovers.
type arena struct {
	process   *etcdproc.Process
	client    *clientv3.Client // not shared with a node or the lookout
	keys      state.Keys
	fleet     *fleet.Fleet
	agreement *fleet.Agreement
	lookout   *fleet.Lookout
	newest    *fleet.Node // the node that queued last; nil at first
}

// failover holds the results of one failover.
type failover struct {
	// agreed is the time from the first evidence, at the bare watch or at a node, that the leader's key is
	// gone, until the last node names the next leader.
	agreed time.Duration
	// whole is the time from the call that ends the leader until the last node names the next one.
	whole time.Duration
	// observed counts the Range requests at etcd that were sent neither by the next leader nor by the node that
	// queued last.
	observed float64
	// tally holds etcd's counts until all nodes have seen all consequences.
	tally etcdproc.Tally
	// cpu is the processor time of this process in that period.
	cpu time.Duration
}

// stop makes the leader stop gracefully. Afterwards a new node takes its place.
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

// revoke revokes the leader's lease while the leader is muted, as if it had crashed. Afterwards the node
// registers again and queues at the end.
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

// measure measures the failover caused by do, which also returns a match for the last event that belongs to it.
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

// ranges returns the number of Range requests sent by next and by the node that queued last.
func (a *arena) ranges(next *fleet.Node) int64 {
	n := next.Ranges()
	if a.newest != nil && a.newest != next {
		n += a.newest.Ranges()
	}
	return n
}
