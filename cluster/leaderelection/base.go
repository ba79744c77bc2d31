package leaderelection

import (
	"context"
	"fmt"
	"sync"

	"github.com/goverse/goverse/cluster/mirror"
	"github.com/goverse/goverse/cluster/session"
)

// makeBase makes a mirror and a session keeper of the election's own, for a
// user who brought neither.
func (le *LeaderElection) makeBase() error {
	le.own = true
	le.mirror = mirror.New(mirror.Config{Client: le.cfg.Client, Keys: le.keys, Logger: le.log})
	keeper, err := session.NewKeeper(session.KeeperConfig{
		Config: session.Config{Client: le.cfg.Client, TTL: le.cfg.TTL, Logger: le.log,
			KnownRevision: KnownRevision(le.mirror), OnRead: le.mirror.Expect},
		OnLost: RebuildOnOtherHistory(le.mirror),
	})
	le.keeper = keeper
	return err
}

// KnownRevision is a session's KnownRevision taken from a mirror.
func KnownRevision(m *mirror.Mirror) func() int64 {
	return func() int64 {
		if s := m.Snapshot(); s != nil {
			return s.Revision
		}
		return 0
	}
}

// RebuildOnOtherHistory is a keeper's OnLost that makes the mirror read anew
// when etcd turned out to be another one: its watch would stay silent.
func RebuildOnOtherHistory(m *mirror.Mirror) func(*session.Session, *session.LostError) {
	return func(_ *session.Session, lost *session.LostError) {
		if lost.Reason == session.ReasonOtherHistory {
			m.Rebuild("etcd's history is another one")
		}
	}
}

// running is the own mirror and keeper while they run.
type running struct {
	stopKeeper, stopMirror context.CancelFunc
	wg                     sync.WaitGroup
	done                   chan struct{} // closed when the keeper gave up
	failure                error
}

func (le *LeaderElection) runBase() *running {
	b := &running{done: make(chan struct{})}
	keeperCtx, stopKeeper := context.WithCancel(context.Background())
	mirrorCtx, stopMirror := context.WithCancel(context.Background())
	b.stopKeeper, b.stopMirror = stopKeeper, stopMirror
	b.wg.Go(func() { _ = le.mirror.Run(mirrorCtx) }) // ends with its context only
	b.wg.Go(func() {
		defer close(b.done)
		select {
		case <-le.mirror.Ready():
		case <-keeperCtx.Done():
			return
		}
		b.failure = le.keeper.Run(keeperCtx)
	})
	return b
}

func (b *running) stop() {
	b.stopKeeper()
	<-b.done
	b.stopMirror()
	b.wg.Wait()
}

func (b *running) err() error {
	if b.failure == nil {
		return ErrStopped
	}
	return fmt.Errorf("%w: %w", ErrStopped, b.failure)
}

func (le *LeaderElection) baseDone() <-chan struct{} {
	if le.base == nil {
		return nil
	}
	return le.base.done
}
