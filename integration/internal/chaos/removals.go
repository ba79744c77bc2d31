//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

// givenUp is the time before a removal at which the member's process has no valid session if it had given it up. Since
// then it sent no heartbeat for that session, and no watcher removes it within the two seconds after the last one.
const givenUp = time.Second

// removals judges the removals of members for their silence. Each must follow from a fault that silences the member,
// or keeps it from etcd, where it would refute; or the process had no valid session any more. A member that lives and
// reaches etcd must not be removed.
type removals struct {
	mu      sync.Mutex
	allowed map[int64]string  // by incarnation: the fault that allows its removal
	removed map[int64]removal // by incarnation
}

// removal is the removal of a member.
type removal struct {
	address string
	seen    history.Instant
}

func newRemovals() *removals {
	return &removals{allowed: map[int64]string{}, removed: map[int64]removal{}}
}

// allow allows the removal of an incarnation by a fault.
func (r *removals) allow(incarnation int64, fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allowed[incarnation] = fault
}

// forbid ends what allow began.
func (r *removals) forbid(incarnation int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.allowed, incarnation)
}

// observe records the removals that a state of the cluster, seen at an instant, shows. Each is shown for some seconds.
func (r *removals) observe(s *state.Snapshot, at history.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range s.Accusations {
		if _, known := r.removed[a.Incarnation]; a.Removed && !known {
			r.removed[a.Incarnation] = removal{a.Address, at}
		}
	}
}

// judge returns the number of removals by each fault, and an error for each removal that must not be. The runs are the
// records of all nodes.
func (r *removals) judge(runs []history.Run) (byFault map[string]int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byFault = map[string]int{}
	for incarnation, one := range r.removed {
		if fault, ok := r.allowed[incarnation]; ok {
			byFault[fault]++
		} else if !one.hadGivenUp(runs) {
			err = errors.Join(err, fmt.Errorf("%s, incarnation %d, was removed for its silence though it lived and reached etcd",
				one.address, incarnation))
		}
	}
	return byFault, err
}

// hadGivenUp reports whether the process had no valid session some time before the removal.
func (r removal) hadGivenUp(runs []history.Run) bool {
	from, to := r.seen.Add(-2*givenUp), r.seen.Add(-givenUp)
	return slices.ContainsFunc(runs, func(run history.Run) bool {
		return run.Subject == history.Leadership && run.Node == r.address && run.State == history.NoSession &&
			run.First.Before <= to && from <= run.Last.After
	})
}

// followRemovals observes removals until ctx ends.
func (w *world) followRemovals(ctx context.Context) {
	changed := w.mirror.Subscribe(func(before, now *state.Snapshot) bool {
		return !state.SameSlice(before.Accusations, now.Accusations)
	})
	defer changed.Close()
	for {
		select {
		case <-changed.C:
		case <-ctx.Done():
			return
		}
		if s := w.mirror.Snapshot(); s != nil {
			w.removals.observe(s, history.Now())
		}
	}
}

// allowRemoval allows that the node is removed for its silence, from before a fault until after it. The returned
// function must be called when the fault is over. If the node has survived, and no accusation stands that it has not
// refuted, its removal is an error from then on. Without a silence time-out allowRemoval does nothing.
func (w *world) allowRemoval(n *chaosNode, fault string) (over func(ctx context.Context)) {
	if w.cfg.SilenceTimeout == 0 {
		return func(context.Context) {}
	}
	incarnation := n.incarnation()
	w.removals.allow(incarnation, fault)
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, effectPatience)
		defer cancel()
		for {
			gone, unaccused := w.checkPlace(ctx, n, incarnation)
			if unaccused {
				w.removals.forbid(incarnation)
			}
			if gone || unaccused || !wait.For(ctx, pollInterval) {
				return
			}
		}
	}
}

// checkPlace reports whether the incarnation is certainly not registered any more, and whether it certainly is and no
// accusation of silence against it stands.
func (w *world) checkPlace(ctx context.Context, n *chaosNode, incarnation int64) (gone, unaccused bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	resp, err := w.client.Txn(ctx).Then(clientv3.OpGet(w.keys.Node(n.address())),
		clientv3.OpGet(w.keys.SilenceAccusationsOf(n.address()), clientv3.WithPrefix(), clientv3.WithCountOnly())).Commit()
	if err != nil {
		return false, false
	}
	found := resp.Responses[0].GetResponseRange().GetKvs()
	if len(found) == 0 || found[0].CreateRevision != incarnation {
		return true, false
	}
	return false, resp.Responses[1].GetResponseRange().GetCount() == 0
}
