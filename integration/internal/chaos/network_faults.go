//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/peer"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/faults"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// faultUntilLost returns a kind of fault that lasts until etcd has removed the node's session, and a moment
// longer.
func faultUntilLost(f faults.Fault) faultKind {
	return faultKind{name: f.Name, silences: true, do: func(ctx context.Context, w *world, n *chaosNode,
		rnd *rand.Rand) error {
		if err := n.awaitWatched(ctx); err != nil {
			return err
		}
		end := w.rec.BeginFault(n.address(), f.Name, "")
		defer end()
		before := n.incarnation()
		f.Begin(n.etcdPath(), rnd)
		accused, gone := n.accusedUntil(ctx, func() error { return n.awaitGone(ctx, before) })
		wait.For(ctx, schedule.Between(rnd, 0, time.Second))
		if err := errors.Join(n.healNetwork(), gone); err != nil {
			return err
		}
		if accused {
			return fmt.Errorf("node %d was accused though its port answers", n.index)
		}
		return n.awaitBack(ctx, before)
	}}
}

// slowingFault returns a kind of fault that slows the path to etcd down. It has an effect only if data passed.
func slowingFault(f faults.Fault) faultKind {
	return faultKind{name: f.Name, silences: true, do: func(ctx context.Context, w *world, n *chaosNode,
		rnd *rand.Rand) error {
		end := w.rec.BeginFault(n.address(), f.Name, "")
		defer end()
		before := n.etcdPath().Traffic()
		f.Begin(n.etcdPath(), rnd)
		wait.For(ctx, schedule.Between(rnd, 500*time.Millisecond, 2*time.Second))
		through := n.etcdPath().Traffic() - before
		if err := n.healNetwork(); err != nil {
			return err
		}
		if through == 0 {
			return errNoEffect
		}
		return nil
	}}
}

// resetConnections breaks every connection to etcd; new ones may be opened. Until the node sees changes again it
// counts as cut off, even briefly: if its port refuses connections at that moment, it is removed.
func resetConnections(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault(n.address(), faults.Reset.Name, "")
	defer end()
	had := n.etcdPath().Connections()
	faults.Reset.Begin(n.etcdPath(), rnd)
	if had == 0 {
		return errNoEffect
	}
	return n.awaitView(ctx)
}

// awaitView waits until the node has seen a change made after the call.
func (n *chaosNode) awaitView(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, effectPatience)
	defer cancel()
	for made := int64(0); ; wait.For(ctx, pollInterval) {
		if made == 0 {
			attempt, cancel := context.WithTimeout(ctx, time.Second)
			// The key does not belong to the cluster, but its watch covers it.
			if resp, err := n.w.client.Put(attempt, clusterPrefix+"/nodes-tick", ""); err == nil {
				made = resp.Header.Revision
			}
			cancel()
		}
		st, err := n.status(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("node %d does not see what changes (%s)", n.index, n.w.describe())
		case err != nil:
			return err
		case made != 0 && st.Revision >= made:
			return nil
		}
	}
}

// awaitRenewed waits until the node's session has been renewed since the call. After an earlier fault it may be about
// to end, which a later fault must not be blamed for.
func (n *chaosNode) awaitRenewed(ctx context.Context) error {
	var before *time.Time
	return n.awaitStatus(ctx, "renews its session", func(st status) bool {
		if before == nil {
			before = &st.Renewed
		}
		return st.Renewed.After(*before)
	})
}

// awaitWatched waits until the nodes that have to watch this one do. They do not while they accuse it, and etcd may
// answer an accusation late, which a later fault must not be blamed for.
func (n *chaosNode) awaitWatched(ctx context.Context) error {
	if n.w.cfg.DetectionOff {
		return nil
	}
	return n.awaitStatus(ctx, "is watched by the others", func(st status) bool {
		return st.Watchers >= min(watchers, len(n.w.mirror.Snapshot().Members)-1)
	})
}

// awaitStatus waits until the node's status satisfies cond.
func (n *chaosNode) awaitStatus(ctx context.Context, what string, cond func(status) bool) error {
	ctx, cancel := context.WithTimeout(ctx, effectPatience)
	defer cancel()
	for ; ; wait.For(ctx, pollInterval) {
		switch st, err := n.status(ctx); {
		case ctx.Err() != nil:
			return fmt.Errorf("not within %v: node %d %s (%s)", effectPatience, n.index, what, n.w.describe())
		case err != nil:
			return err
		case cond(st):
			return nil
		}
	}
}

// refuseConnections makes the node's port refuse connections while the node reaches etcd. It must be accused, refute
// the accusation, and stay.
func refuseConnections(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	// Its watch may have been at a member that is away.
	if err := errors.Join(n.awaitView(ctx), n.awaitRenewed(ctx)); err != nil {
		return err
	}
	end := w.rec.BeginFault(n.address(), "refusing", "")
	defer end()
	before := n.incarnation()
	n.entrance.Refuse()
	_, accused := w.awaitSnapshot(ctx, effectPatience, fmt.Sprintf("node %d is accused", n.index),
		func(s *state.Snapshot) bool { return n.accusations(s) > 0 })
	_, refuted := w.awaitSnapshot(ctx, effectPatience, fmt.Sprintf("node %d has refuted", n.index),
		func(s *state.Snapshot) bool { return n.accusations(s) == 0 })
	if err := errors.Join(n.entrance.Heal(), accused, refuted); err != nil {
		return err
	}
	if now := n.incarnation(); now != before {
		w.rec.Mark(history.Mark{Node: n.address(), Name: history.RemovedAlive, From: history.Now(), To: history.Now()})
		return fmt.Errorf("node %d was removed though it reaches etcd: incarnation %d, now %d", n.index, before, now)
	}
	return nil
}

// dropNodePackets drops packets between the nodes. Silence is no evidence of a crash, so there must be no accusation;
// one of silence must be refuted.
func dropNodePackets(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	if err := errors.Join(n.awaitWatched(ctx), n.awaitRenewed(ctx)); err != nil {
		return err
	}
	end := w.rec.BeginFault(n.address(), "unreachable", "")
	defer end()
	before := n.incarnation()
	n.entrance.Blackhole(fault.Both)
	accused, silent := n.accusedUntil(ctx, func() error {
		probe, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := peer.Identify(probe, n.address())
		wait.For(ctx, schedule.Between(rnd, 200*time.Millisecond, time.Second))
		return err
	})
	if err := n.entrance.Heal(); err != nil {
		return err
	}
	switch {
	case !errors.Is(silent, peer.ErrNoAnswer):
		return errNoEffect
	case accused:
		return fmt.Errorf("node %d was accused for its silence", n.index)
	case n.incarnation() != before:
		return fmt.Errorf("node %d was lost though it reaches etcd: incarnation %d, now %d", n.index, before, n.incarnation())
	}
	return nil
}

// isolateNode makes the node refuse connections and cuts it off from etcd at the same moment. The node is removed
// although it lives: the design's exempt case.
func isolateNode(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault(n.address(), "outcast", "")
	defer end()
	before := n.incarnation()
	err := w.rec.Intervene(n.address(), history.RemovedAlive, func() error {
		faults.CutOff.Begin(n.etcdPath(), rnd)
		n.entrance.Refuse()
		return n.awaitGone(ctx, before)
	})
	wait.For(ctx, schedule.Between(rnd, 0, 500*time.Millisecond))
	if err := errors.Join(n.healNetwork(), err); err != nil {
		return err
	}
	return n.awaitBack(ctx, before)
}
