//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// A watcher removes a silent member no earlier than 2.3 s after the last heartbeat that it acknowledges, with the
// silence time-out of the runs (3.5 s). Shorter stops must cost nothing.
const (
	shortestStop = time.Second
	harmlessStop = 1400 * time.Millisecond
	longestStop  = 30 * time.Second
)

// placeOf returns the node's incarnation and, while it leads, its token.
func (n *chaosNode) placeOf(s *state.Snapshot) (incarnation, token int64) {
	if m := s.Member(n.address()); m != nil {
		incarnation = m.Incarnation
	}
	if l := s.Leader(); l.Address == n.address() {
		token = l.Token
	}
	return incarnation, token
}

// holdsPlace returns a function that reports an error if the node is not the same member any more, or led and leads no
// more.
func (n *chaosNode) holdsPlace() func() error {
	before, led := n.placeOf(n.w.mirror.Snapshot())
	return func() error {
		switch now, leads := n.placeOf(n.w.mirror.Snapshot()); {
		case now != before:
			return fmt.Errorf("node %d was removed though it reaches etcd: incarnation %d, now %d", n.index, before, now)
		case led != 0 && leads != led:
			return fmt.Errorf("node %d lost the lead though it reaches etcd: token %d, now %d", n.index, led, leads)
		}
		return nil
	}
}

// stopBriefly stops the process for less than its watchers wait. It must stay a member and keep the lead.
func stopBriefly(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	if err := errors.Join(n.awaitWatched(ctx), n.awaitRenewed(ctx)); err != nil {
		return err
	}
	end := w.rec.BeginFault(n.address(), "stopped briefly", "")
	defer end()
	held := n.holdsPlace()
	if _, err := n.currentProcess().Freeze(); err != nil {
		return err
	}
	wait.For(ctx, schedule.Between(rnd, shortestStop, harmlessStop))
	if _, err := n.currentProcess().Thaw(); err != nil {
		return err
	}
	if err := n.awaitView(ctx); err != nil { // it has answered, and etcd has shown what came of it
		return err
	}
	return held()
}

// stopLong stops the process for a time between that of a harmless stop and longestStop, the short ones more often. The
// longer ones cost it its place.
func stopLong(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	if err := n.awaitWatched(ctx); err != nil {
		return err
	}
	end := w.rec.BeginFault(n.address(), "stopped for long", "")
	defer end()
	before := n.incarnation()
	if _, err := n.currentProcess().Freeze(); err != nil {
		return err
	}
	stop := time.Duration(float64(harmlessStop) *
		math.Pow(float64(longestStop)/float64(harmlessStop), rnd.Float64()))
	wait.For(ctx, stop)
	lost := stop > 2*w.cfg.SilenceTimeout
	var gone error
	if lost {
		gone = n.awaitGone(ctx, before) // etcd may be away
	}
	_, err := n.currentProcess().Thaw()
	if err := errors.Join(gone, err); err != nil || !lost {
		return err
	}
	return n.awaitBack(ctx, before)
}

// lostHost returns a kind of fault that drops the packets to a node (ToTarget), from it (FromTarget), or both, until
// the node has been removed, and a moment longer.
func lostHost(name string, d fault.Direction) faultKind {
	return faultKind{name: name, needsSilence: true, silences: true,
		do: func(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
			if err := n.awaitWatched(ctx); err != nil {
				return err
			}
			end := w.rec.BeginFault(n.address(), name, "")
			defer end()
			before := n.incarnation()
			n.dropPackets(d)
			gone := n.awaitGone(ctx, before)
			wait.For(ctx, schedule.Between(rnd, 0, time.Second))
			if err := errors.Join(n.healNetwork(), gone); err != nil {
				return err
			}
			return n.awaitBack(ctx, before)
		}}
}

// loseHostWithMember stops a node and the member of etcd on its host, or cuts both off from all others. Without another
// member of etcd, it stops both for a while.
func loseHostWithMember(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	m, _ := w.chooseMember(ctx, rnd)
	if len(n.members) == 1 {
		m = n.members[0]
	}
	end := w.rec.BeginFault(n.address(), "host lost with its etcd member", m.endpoint)
	defer end()
	endOfMember := w.rec.BeginFault("", "etcd member lost with its host", m.endpoint)
	defer endOfMember()
	if len(w.members) == 1 {
		return stopHost(n, m, rnd, func() error {
			wait.For(ctx, schedule.Between(rnd, 0, 2*time.Duration(w.cfg.TTL)*time.Second))
			return nil
		}, func() error { return errors.Join(w.awaitEtcdAnswers(ctx), w.awaitMembersJoined(ctx)) })
	}
	back := w.avoidMember(m)
	before := n.incarnation()
	lost := func() error {
		err := w.awaitOthers(ctx, m, w.takeoverTime())
		if err == nil {
			err = n.awaitGone(ctx, before)
		}
		wait.For(ctx, schedule.Between(rnd, 0, 2*time.Second))
		return err
	}
	recovered := func() error { return errors.Join(w.awaitEtcdWhole(ctx), back()) }
	var err error
	if rnd.IntN(2) == 0 {
		err = stopHost(n, m, rnd, lost, recovered)
	} else {
		err = w.cutHost(n, m, lost, recovered)
	}
	if err != nil {
		return err
	}
	return n.awaitBack(ctx, before)
}

// stopHost stops a node and a member of etcd until lost returns, and then awaits the recovery.
func stopHost(n *chaosNode, m *member, rnd *rand.Rand, lost, recovered func() error) error {
	processes := []*fault.Process{n.currentProcess(), m.currentProcess()}
	var errs []error
	for _, p := range processes {
		_, err := p.Freeze()
		errs = append(errs, err)
	}
	errs = append(errs, lost())
	rnd.Shuffle(len(processes), func(i, j int) { processes[i], processes[j] = processes[j], processes[i] })
	for _, p := range processes {
		_, err := p.Thaw()
		errs = append(errs, err)
	}
	return errors.Join(append(errs, recovered())...)
}

// cutHost drops the packets between a node with a member of etcd and all others until lost returns, and then awaits
// the recovery. The clients of other nodes still reach that member, which makes no difference to the node.
func (w *world) cutHost(n *chaosNode, m *member, lost, recovered func() error) error {
	instruct := func(what string) (errs []error) {
		for _, other := range w.members {
			if other != m {
				errs = append(errs, m.sendInstruction(what, other), other.sendInstruction(what, m))
			}
		}
		return errs
	}
	errs := instruct(procs.CutPeer)
	n.dropPackets(fault.Both)
	for i, l := range n.links {
		if n.members[i] == m {
			errs = append(errs, l.Heal())
		}
	}
	errs = append(errs, lost())
	errs = append(errs, instruct(procs.MendPeer)...)
	return errors.Join(append(errs, n.healNetwork(), recovered())...)
}
