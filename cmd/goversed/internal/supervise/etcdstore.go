//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
	"github.com/goverse/goverse/internal/wait"
)

// etcdStore is a store in etcd.
type etcdStore struct {
	cfg       Config
	client    *clientv3.Client
	keeper    *etcdsession.Keeper
	locks     *etcdlock.Registry   // nil for an election
	elections *elections.Elections // nil for a lock
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

// newEtcdClaim starts the sessions and queues on client, which close closes.
func newEtcdClaim(cfg Config, client *clientv3.Client) (*claim, error) {
	c := &claim{cfg: cfg}
	s := &etcdStore{cfg: cfg, client: client}
	c.store = s
	root, name := cfg.Keys.Locks(), cfg.Lock
	if cfg.Election != "" {
		root, name = cfg.Keys.Elections(), cfg.Election
	}
	var err error
	process := etcd.Process{Client: client, Logger: cfg.Logger}
	s.keeper, err = etcdsession.NewKeeper(
		etcdsession.Config{Process: process, TTL: cfg.TTL, ReadKey: root.BucketPrefix(name)}, etcdsession.Hooks{
			// Wait until nothing that ran under the session is left. Only then is its lease revoked.
			OnLost: func(*etcdsession.Session, *session.LostError) { c.waitIdle(context.Background()) },
		})
	if err != nil {
		return nil, err
	}
	queues, err := leasequeue.New(leasequeue.Config{Process: etcd.Process{Client: client, RequestTimeout: requestTimeout,
		Logger: demoteInfoLogger{cfg.Logger}}, Keeper: s.keeper}, root)
	if err != nil {
		return nil, err
	}
	run := queues.Run
	if cfg.Election == "" {
		s.locks = etcdlock.NewRegistry(queues.Queues(root), ownerName())
	} else {
		s.elections, err = elections.New(elections.Config{Queues: queues.Queues(root), Address: ownerName(),
			WorkTimeout: workTimeout, IsFinal: connect.LacksPermission, Logger: demoteInfoLogger{cfg.Logger}})
		if err != nil {
			return nil, err
		}
		run = wait.RunAll(queues.Run, s.elections.Run)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.wg.Go(func() { _ = s.keeper.Run(ctx) }) // without a registration it never fails for good
	s.wg.Go(func() { run(ctx) })
	return c, nil
}

// close implements store. It revokes the lease.
func (s *etcdStore) close() {
	s.cancel()
	s.wg.Wait()
	_ = s.client.Close() // no more requests are sent
}

// etcdHolderSession is a session in etcd.
type etcdHolderSession struct{ *etcdsession.Session }

func (s etcdHolderSession) Number() int64 { return int64(s.ID()) }

func (s *etcdStore) session() holderSession {
	if current := s.keeper.Current(); current != nil {
		return etcdHolderSession{current}
	}
	return nil
}

func (s *etcdStore) awaitSession(ctx context.Context) error {
	_, err := s.keeper.Wait(ctx, nil)
	return err
}

func (s *etcdStore) readFirst(ctx context.Context) (firstEntry, error) {
	_, name := s.cfg.kindAndName()
	resp, err := s.client.Get(ctx, s.cfg.claimQueues().QueuePrefix(name), clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil || len(resp.Kvs) == 0 {
		return firstEntry{}, err
	}
	current := s.keeper.Current()
	return firstEntry{exists: true, owner: string(resp.Kvs[0].Value),
		own: current != nil && resp.Kvs[0].Lease == int64(current.ID())}, nil
}

func (s *etcdStore) acquire(ctx context.Context) (h *heldClaim, err error) {
	if s.elections != nil {
		e, err := s.elections.Stand(s.cfg.Election)
		if err != nil {
			return nil, err
		}
		h, err = acquireTerm(ctx, e)
		if err != nil {
			return nil, err
		}
	} else if h, err = acquireLock(ctx, s.cfg, s.locks); err != nil {
		return nil, err
	}
	h.keys = h.key
	return h, nil
}

// acquireLock acquires the lock, or returns errBusy if it is to be tried only.
func acquireLock(ctx context.Context, cfg Config, locks lock.LockRegistry) (*heldClaim, error) {
	var opts []lock.Option
	if cfg.Shared {
		opts = append(opts, lock.Shared())
	}
	var h lock.Held
	var err error
	if cfg.Try {
		var taken bool
		if h, taken, err = locks.TryAcquire(ctx, cfg.Lock, opts...); err == nil && !taken {
			return nil, errBusy
		}
	} else {
		h, err = locks.Acquire(ctx, cfg.Lock, opts...)
	}
	if err != nil {
		return nil, err
	}
	return &heldClaim{ctx: h.Context(), number: sessionOf(h), key: h.(keyed).Key(), token: h.Token(),
		declareIdle: func() {}, release: h.Release}, nil
}
