//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// errNoEffect is returned when a fault had no observable effect.
var errNoEffect = errors.New("no effect was seen")

// effectPatience limits the wait for an effect. It covers a lease of the longest TTL that etcd extends because
// its own leader changed, twice if that leader stutters.
const effectPatience = 40 * time.Second

// incarnation returns the node's current incarnation in etcd, or 0 if it is not registered.
func (n *chaosNode) incarnation() int64 {
	if m := n.w.mirror.Snapshot().Member(n.address()); m != nil {
		return m.Incarnation
	}
	return 0
}

// awaitGone waits until that incarnation is not registered any more.
func (n *chaosNode) awaitGone(ctx context.Context, incarnation int64) error {
	_, err := n.w.awaitSnapshot(ctx, effectPatience, fmt.Sprintf("incarnation %d of node %d is gone", incarnation,
		n.index),
		func(s *state.Snapshot) bool {
			m := s.Member(n.address())
			return m == nil || m.Incarnation != incarnation
		})
	return err
}

// awaitBack waits until the node is registered with another incarnation, and queued.
func (n *chaosNode) awaitBack(ctx context.Context, incarnation int64) error {
	_, err := n.w.awaitSnapshot(ctx, effectPatience, fmt.Sprintf("node %d is back after incarnation %d", n.index,
		incarnation),
		func(s *state.Snapshot) bool {
			m := s.Member(n.address())
			if m == nil || m.Incarnation == incarnation {
				return false
			}
			c, _ := s.CandidateOn(m.Lease)
			return c != nil
		})
	return err
}

// killProcess kills the process and makes its port refuse. Then it starts the process again, at times so soon that
// the new process finds its predecessor's keys.
func killProcess(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault(n.address(), "killed", "")
	defer end()
	before := n.incarnation()
	if _, err := n.currentProcess().Kill(); err != nil {
		return err
	}
	n.entrance.Refuse()
	if rnd.IntN(2) == 0 {
		if err := n.awaitGone(ctx, before); err != nil {
			return err
		}
	} else {
		wait.For(ctx, schedule.Between(rnd, 0, 200*time.Millisecond))
	}
	if err := n.entrance.Heal(); err != nil {
		return err
	}
	if err := n.start(ctx); err != nil {
		return err
	}
	return n.awaitBack(ctx, before)
}

// terminate stops the process gracefully.
func (n *chaosNode) terminate(ctx context.Context) error {
	p := n.currentProcess()
	if p == nil {
		return nil
	}
	if _, err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop node %d: %w", n.index, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopPatience+effectPatience)
	defer cancel()
	code, err := p.Exit(ctx)
	if err == nil && code != 0 {
		// A stop while etcd is unavailable leaves the keys to the lease and reports an error.
		n.w.cfg.Log("node %d: %s", n.index, p.State())
	}
	return err
}

func stopProcess(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault(n.address(), "stopped", "")
	defer end()
	before := n.incarnation()
	if err := n.terminate(ctx); err != nil {
		return err
	}
	n.entrance.Refuse()
	if err := n.awaitGone(ctx, before); err != nil {
		return err
	}
	wait.For(ctx, schedule.Between(rnd, 0, 300*time.Millisecond))
	if err := n.entrance.Heal(); err != nil {
		return err
	}
	if err := n.start(ctx); err != nil {
		return err
	}
	return n.awaitBack(ctx, before)
}

// freezeProcess freezes the process until its lease has expired, or it was removed for its silence. Its connections
// stay open, so no node may accuse it of anything else. It resumes and finds itself replaced.
func freezeProcess(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	if err := n.awaitWatched(ctx); err != nil {
		return err
	}
	end := w.rec.BeginFault(n.address(), "frozen", "")
	defer end()
	before := n.incarnation()
	if _, err := n.currentProcess().Freeze(); err != nil {
		return err
	}
	accused, gone := n.accusedUntil(ctx, func() error { return n.awaitGone(ctx, before) })
	wait.For(ctx, schedule.Between(rnd, 0, time.Second))
	_, err := n.currentProcess().Thaw()
	if err := errors.Join(err, gone); err != nil {
		return err
	}
	if accused {
		return fmt.Errorf("node %d was accused while it was frozen", n.index)
	}
	return n.awaitBack(ctx, before)
}

// accusedUntil reports whether the node was accused at any time while f ran.
func (n *chaosNode) accusedUntil(ctx context.Context, f func() error) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	seen := make(chan bool, 1)
	n.w.wg.Go(func() {
		_, err := n.w.mirror.Wait(ctx, func(s *state.Snapshot) bool { return n.accusations(s) > 0 })
		seen <- err == nil
	})
	err := f()
	cancel()
	return <-seen, err
}

// accusations returns the number of accusations against the registered incarnation, without those of silence. One
// against a former incarnation can exist for as long as its writer is cut off.
func (n *chaosNode) accusations(s *state.Snapshot) int {
	m := s.Member(n.address())
	count := 0
	for _, a := range s.Accusations {
		if a.Address == n.address() && m != nil && a.Incarnation == m.Incarnation && !a.Removed {
			count++
		}
	}
	return count
}

// pauseProcess freezes the process for less than a TTL, like a garbage collection or a busy host.
func pauseProcess(ctx context.Context, w *world, n *chaosNode, rnd *rand.Rand) error {
	end := w.rec.BeginFault(n.address(), "paused", "")
	defer end()
	if _, err := n.currentProcess().Freeze(); err != nil { // returns when all threads have stopped
		return err
	}
	wait.For(ctx, schedule.Between(rnd, 50*time.Millisecond, time.Duration(w.cfg.TTL)*time.Second/2))
	_, err := n.currentProcess().Thaw()
	return err
}
