package target

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
	"github.com/goverse/goverse/internal/state"
)

// lockTTL is the TTL of the sessions that hold locks, of Goverse and of the peer.
const lockTTL = 10 * time.Second

// locker has one process's locks and named elections, on a session of its own.
type locker struct {
	locks     *etcdlock.Registry
	elections *elections.Elections
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

// newLocker returns when the session is open. The caller must call close.
func newLocker(ctx context.Context, client *clientv3.Client, address string) (*locker, error) {
	keys, err := state.NewKeys("/goverse")
	if err != nil {
		return nil, err
	}
	keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: etcd.Process{Client: client},
		TTL: lockTTL}, etcdsession.Hooks{})
	if err != nil {
		return nil, err
	}
	l := &locker{}
	queues, err := leasequeue.New(leasequeue.Config{Process: etcd.Process{Client: client}, Keeper: keeper}, keys.Locks())
	if err != nil {
		return nil, err
	}
	l.locks = etcdlock.NewRegistry(queues.Queues(keys.Locks()), address)
	if l.elections, err = elections.New(elections.Config{Queues: queues.Queues(keys.Elections()),
		Address: address}); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.wg.Go(func() { _ = keeper.Run(life) }) // revokes when life ends
	l.wg.Go(func() { queues.Run(life) })
	l.wg.Go(func() { l.elections.Run(life) })
	if _, err := keeper.Wait(ctx, nil); err != nil {
		l.close()
		return nil, fmt.Errorf("open a session: %w", err)
	}
	return l, nil
}

func (l *locker) close() {
	l.cancel()
	l.wg.Wait()
}

// pair acquires a lock and releases it.
func (l *locker) pair(ctx context.Context, name string) error {
	h, err := l.locks.Acquire(ctx, name)
	if err != nil {
		return err
	}
	return h.Release(ctx)
}
