package leaderelection

import (
	"context"
	"fmt"
	"sync"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcdsession"
	"github.com/goverse/goverse/internal/mirror"
)

// makeBase makes a mirror and a session keeper of the election's own, for a
// user who brought neither.
func (le *LeaderElection) makeBase() error {
	le.mirror = mirror.New(mirror.Config{Client: le.cfg.Client, Keys: le.keys, Logger: le.log})
	keeper, err := etcdsession.NewKeeper(etcdsession.KeeperConfig{
		Config: etcdsession.Config{Client: le.cfg.Client, TTL: le.cfg.TTL, Logger: le.log, ReadKey: le.keys.Request(),
			KnownRevision: le.mirror.Known, OnRead: le.mirror.Saw, Proxied: le.mirror.Proxied},
		OnLost: RebuildOnOtherHistory(le.mirror),
	})
	le.keeper = keeper
	le.base = newBase(le.mirror, keeper)
	return err
}

// RebuildOnOtherHistory is a keeper's OnLost that makes the mirror read anew
// when etcd turned out to be another one: its watch would stay silent.
func RebuildOnOtherHistory(m *mirror.Mirror) func(*etcdsession.Session, *session.LostError) {
	return func(_ *etcdsession.Session, lost *session.LostError) {
		if lost.Reason == session.ReasonOtherHistory {
			m.Rebuild("etcd's history is another one")
		}
	}
}

// base is the own mirror and keeper.
type base struct {
	mirror                *mirror.Mirror
	keeper                *etcdsession.Keeper
	keeperCtx, mirrorCtx  context.Context
	stopKeeper, endMirror context.CancelFunc
	wg                    sync.WaitGroup
	done                  chan struct{} // closed when the keeper gave up
	failure               error         // read after done
}

func newBase(m *mirror.Mirror, k *etcdsession.Keeper) *base {
	b := &base{mirror: m, keeper: k, done: make(chan struct{})}
	b.keeperCtx, b.stopKeeper = context.WithCancel(context.Background())
	b.mirrorCtx, b.endMirror = context.WithCancel(context.Background())
	return b
}

func (b *base) run() {
	b.wg.Go(func() { _ = b.mirror.Run(b.mirrorCtx) }) // ends with its context only
	b.wg.Go(func() {
		defer close(b.done)
		select {
		case <-b.mirror.Ready():
		case <-b.keeperCtx.Done():
			return
		}
		b.failure = b.keeper.Run(b.keeperCtx)
	})
}

func (b *base) stop() {
	b.stopKeeper()
	<-b.done
	b.endMirror()
	b.wg.Wait()
}

func (b *base) err() error {
	if b.failure == nil {
		return election.ErrStopped
	}
	return fmt.Errorf("%w: %w", election.ErrStopped, b.failure)
}

func (le *LeaderElection) baseDone() <-chan struct{} {
	if le.base == nil {
		return nil
	}
	return le.base.done
}
