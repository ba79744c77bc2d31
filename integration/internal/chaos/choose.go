//go:build unix

package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/wait"
)

// leaderPatience limits the wait for a leader that can be affected.
const leaderPatience = 2 * time.Second

// chosenFault is a fault that may begin. No node is affected by two faults at a time, nor is etcd.
type chosenFault struct {
	kind    faultKind
	node    *chaosNode // nil if it affects none
	owns    bool       // the node serves shards
	release func()     // to be called when the fault is over
}

// chooseFault waits until one of the faults in the deck may begin, and takes the first of these. It returns false if
// the run ends before.
func (r *runner) chooseFault(ctx context.Context, deck *[]faultKind) (chosenFault, bool) {
	for patience := time.Now().Add(leaderPatience); ctx.Err() == nil && r.firstError() == nil; {
		n, serves := r.lockNode(ctx, time.Now().After(patience))
		for i, k := range *deck {
			if f, ok := r.tryBegin(ctx, k, n, serves > 0); ok {
				*deck = slices.Delete(*deck, i, i+1)
				return f, true
			}
		}
		if n != nil {
			n.busy.Unlock()
		}
		wait.For(ctx, pollInterval)
	}
	return chosenFault{}, false
}

// lockNode makes a node busy that may be affected, and returns it with the number of shards that it serves. It returns
// nil if there is none at present.
//
// Three of four faults at nodes affect the leader, so including those at etcd it is more than half. Between two leaders
// there is a moment without one.
func (r *runner) lockNode(ctx context.Context, anyNode bool) (n *chaosNode, serves int) {
	r.mu.Lock()
	wantLeader := 4*r.atLeader <= 3*r.atNodes
	r.mu.Unlock()
	if n = r.w.leader(); !wantLeader || anyNode {
		n = r.w.nodes[r.rnd.IntN(len(r.w.nodes))]
	}
	if n == nil {
		return nil, 0
	}
	serves, ok := n.lockWell(ctx)
	if !ok {
		return nil, 0
	}
	return n, serves
}

// lockWell makes the node busy if it is not. An effect can be observed only at a node that has recovered from the last
// fault, and from an outage of etcd; otherwise lockWell returns false.
func (n *chaosNode) lockWell(ctx context.Context) (serves int, ok bool) {
	if !n.busy.TryLock() {
		return 0, false
	}
	if serves, ok = n.checkWell(ctx); !ok {
		n.busy.Unlock()
	}
	return serves, ok
}

// tryBegin returns a fault of that kind, if it may begin. The node n is locked, or nil; a fault that does not affect it
// unlocks it.
func (r *runner) tryBegin(ctx context.Context, k faultKind, n *chaosNode, owns bool) (chosenFault, bool) {
	w := r.w
	atNode := !k.atEtcd || k.withNode
	if atNode && n == nil {
		return chosenFault{}, false
	}
	release := func() {}
	switch {
	case k.atEtcd && !w.etcdBusy.TryLock(), k.etcdWell && !w.etcdBusy.TryRLock():
		return chosenFault{}, false
	case k.atEtcd:
		release = w.etcdBusy.Unlock
	case k.etcdWell:
		release = w.etcdBusy.RUnlock
	}
	if !atNode {
		if n != nil {
			n.busy.Unlock()
		}
		return chosenFault{kind: k, release: release}, true
	}
	locked := []*chaosNode{n}
	releaseAll := func() {
		for _, one := range locked {
			one.busy.Unlock()
		}
		release()
	}
	if k.partners != nil {
		for _, p := range k.partners(w, n, r.rnd) {
			if _, ok := p.lockWell(ctx); !ok {
				locked = locked[1:] // n stays locked
				releaseAll()
				return chosenFault{}, false
			}
			locked = append(locked, p)
		}
	}
	n.partners = locked[1:]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.atNodes++
	if w.leader() == n {
		r.atLeader++
	}
	return chosenFault{kind: k, node: n, owns: owns, release: releaseAll}, true
}
