//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// watchers is the number of watchers of each node, the default of cluster.CrashDetection.
	watchers = 2
	// accusedWithin limits the wait for an accusation of silence. A member that has refuted some is left alone for
	// longer than that.
	accusedWithin = 5 * time.Second
	// watchersLost is the name of the fault of loseWatchers.
	watchersLost = "all watchers of a node lost at once"
)

// watchersOf returns the nodes that watch this one while all nodes are members.
func (w *world) watchersOf(n *chaosNode) (out []*chaosNode) {
	all := &state.Snapshot{}
	for _, o := range w.nodes {
		all.Members = append(all.Members, &state.Member{Address: o.address(), Scatter: state.ScatterOf(o.address())})
	}
	slices.SortFunc(all.Members, func(a, b *state.Member) int { return strings.Compare(a.Address, b.Address) })
	for _, o := range w.nodes {
		targets := suspicion.WatchTargets(all, suspicion.Self{Address: o.address()}, watchers,
			func(*state.Member) bool { return true })
		if slices.ContainsFunc(targets, func(m *state.Member) bool { return m.Address == n.address() }) {
			out = append(out, o)
		}
	}
	return out
}

// drawNeighbour returns a node that watches this one, or one that this one watches.
func (w *world) drawNeighbour(n *chaosNode, rnd *rand.Rand) []*chaosNode {
	neighbours := w.watchersOf(n)
	for _, o := range w.nodes {
		if slices.Contains(w.watchersOf(o), n) {
			neighbours = append(neighbours, o)
		}
	}
	return []*chaosNode{neighbours[rnd.IntN(len(neighbours))]}
}

// cutPair returns a kind of fault that drops the packets between a node and one that watches it, or is watched by it:
// both ways, or one way. The silent one must be accused, refute that, and stay, as the other one must.
func cutPair(name string, bothWays bool) faultKind {
	return faultKind{name: name, needsSilence: true, etcdWell: true, members: 1,
		partners: func(w *world, n *chaosNode, rnd *rand.Rand) []*chaosNode { return w.drawNeighbour(n, rnd) },
		do: func(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
			pair := []*chaosNode{n, n.partners[0]}
			for _, one := range pair {
				if err := errors.Join(one.awaitWatched(ctx), one.awaitRenewed(ctx)); err != nil {
					return err
				}
				end := w.rec.BeginFault(one.address(), name, "")
				defer end()
			}
			from := rnd.IntN(2)
			held := []func() error{pair[0].holdsPlace(), pair[1].holdsPlace()}
			pair[from].dropPacketsTo(pair[1-from])
			if bothWays {
				pair[1-from].dropPacketsTo(pair[from])
			}
			effect := w.awaitRefutation(ctx, pair)
			wait.For(ctx, schedule.Between(rnd, 0, 3*time.Second))
			if err := n.healPair(pair[1]); err != nil {
				return err
			}
			return errors.Join(held[0](), held[1](), effect)
		}}
}

// awaitRefutation waits until one of the nodes is accused of silence, and until that one has refuted it.
func (w *world) awaitRefutation(ctx context.Context, nodes []*chaosNode) error {
	accused := false
	for until := time.Now().Add(accusedWithin); ; {
		count := int64(0)
		for _, n := range nodes {
			resp, err := w.client.Get(ctx, w.keys.SilenceAccusationsOf(n.address()), clientv3.WithPrefix(),
				clientv3.WithCountOnly())
			if err != nil {
				return err
			}
			count += resp.Count
		}
		switch {
		case accused && count == 0:
			return nil
		case count > 0 && !accused:
			accused, until = true, time.Now().Add(effectPatience)
		case time.Now().After(until) && accused:
			return fmt.Errorf("not within %v: nodes %d and %d have refuted (%s)", effectPatience, nodes[0].index,
				nodes[1].index, w.describe())
		case time.Now().After(until):
			return errNoEffect
		}
		if !wait.For(ctx, pollInterval) {
			return context.Cause(ctx)
		}
	}
}

// loseWatchers stops or kills all watchers of a node at once. The node must stay a member and keep the lead: it relies
// on etcd until they have been removed.
func loseWatchers(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	if err := errors.Join(n.awaitWatched(ctx), n.awaitRenewed(ctx)); err != nil {
		return err
	}
	kills := rnd.IntN(2) == 0
	lost := schedule.Between(rnd, shortestStop, 2*w.cfg.SilenceTimeout)
	held := n.holdsPlace()
	var before []int64
	for _, p := range n.partners {
		end := w.rec.BeginFault(p.address(), "lost with all watchers of a node", n.address())
		defer end()
		over := w.allowRemoval(p, watchersLost)
		defer over(ctx)
		before = append(before, p.incarnation())
	}
	for _, p := range n.partners {
		var err error
		if kills {
			_, err = p.currentProcess().Kill()
			p.entrance.Refuse()
		} else {
			_, err = p.currentProcess().Freeze()
		}
		if err != nil {
			return err
		}
	}
	wait.For(ctx, lost)
	for i, p := range n.partners {
		if !kills {
			if _, err := p.currentProcess().Thaw(); err != nil {
				return err
			}
			continue
		}
		if err := p.entrance.Heal(); err != nil {
			return err
		}
		if err := p.start(ctx); err != nil {
			return err
		}
		if err := p.awaitBack(ctx, before[i]); err != nil {
			return err
		}
	}
	if err := n.awaitView(ctx); err != nil { // what came of it has been shown
		return err
	}
	return held()
}
