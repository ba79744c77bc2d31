//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
	"github.com/goverse/goverse/internal/wait"
)

// errBusy: the lock is not free.
var errBusy = errors.New("held by another")

const (
	// requestTimeout bounds each request to etcd.
	requestTimeout = 2 * time.Second
	// lastAsk bounds the one that shows, when the time for a lock is over, whether others have it.
	lastAsk = time.Second / 2
)

// forever is how long a term that is over is waited for: until nothing of the command is left.
const forever = 100 * 365 * 24 * time.Hour

// claim is this process's part at etcd: one session after the other, and what stands on it.
type claim struct {
	cfg    Config
	client *clientv3.Client
	keeper *etcdsession.Keeper
	locks  *etcdlock.Etcd       // nil for an election
	all    *elections.Elections // nil for a lock
	cancel context.CancelFunc
	wg     sync.WaitGroup
	closed bool

	mu   sync.Mutex
	busy chan struct{} // closed when nothing of the present command is left; nil: there is none
}

// held is a term or lock that is held.
type held struct {
	ctx     context.Context // ends when it is lost
	session *etcdsession.Session
	key     string
	token   int64
	// idle says that nothing is done under it any more; then giveUp can release it.
	idle   func()
	giveUp func(ctx context.Context) error
}

// newClaim begins to live on client, which is closed in the end.
func newClaim(cfg Config, client *clientv3.Client) (*claim, error) {
	c := &claim{cfg: cfg, client: client}
	root, name := cfg.Keys.Locks(), cfg.Lock
	if cfg.Election != "" {
		root, name = cfg.Keys.Elections(), cfg.Election
	}
	var err error
	c.keeper, err = etcdsession.NewKeeper(etcdsession.KeeperConfig{
		Config: etcdsession.Config{Client: client, TTL: cfg.TTL, Logger: cfg.Logger, ReadKey: root.Bucket(name)},
		// What ran under the session is seen to be gone before anything is revoked.
		OnLost: func(*etcdsession.Session, *session.LostError) { c.idle() },
	})
	if err != nil {
		return nil, err
	}
	queues, err := leasequeue.New(leasequeue.Config{Client: client, Keeper: c.keeper, RequestTimeout: requestTimeout,
		Logger: discreet{cfg.Logger}}, root)
	if err != nil {
		return nil, err
	}
	run := queues.Run
	if cfg.Election == "" {
		c.locks = etcdlock.NewEtcd(queues.Queues(root), owner())
	} else {
		c.all, err = elections.New(elections.Config{Queues: queues.Queues(root), Address: owner(),
			WorkTimeout: forever, Final: connect.Refuses, Logger: discreet{cfg.Logger}})
		if err != nil {
			return nil, err
		}
		run = wait.All(queues.Run, c.all.Run)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.wg.Go(func() { _ = c.keeper.Run(ctx) }) // nothing is registered, so nothing can fail for good
	c.wg.Go(func() { run(ctx) })
	return c, nil
}

// close revokes the session's lease, and so gives up all that stands on it.
// Closing again is harmless.
func (c *claim) close() {
	if c.closed {
		return
	}
	c.closed = true
	c.cancel()
	c.wg.Wait()
	_ = c.client.Close() // nothing is sent any more
}

// begin says that a command is about to run, and returns what to call when nothing of it is
// left.
func (c *claim) begin() (end func()) {
	done := make(chan struct{})
	c.mu.Lock()
	c.busy = done
	c.mu.Unlock()
	return func() { close(done) }
}

// idle blocks while anything of a command is left.
func (c *claim) idle() {
	c.mu.Lock()
	busy := c.busy
	c.mu.Unlock()
	if busy != nil {
		<-busy
	}
}

// take blocks until it is held, or ctx ends. Errors are ctx's cause, errBusy, and what etcd
// refused.
func (c *claim) take(ctx context.Context) (*held, error) {
	if !c.cfg.Try {
		waiting, taken := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { c.sayWaiting(waiting) })
		defer wg.Wait()
		defer taken()
	}
	for {
		h, err := c.takeOnce(ctx)
		if err != nil {
			return nil, err
		}
		// Sessions come one after the other: while it stands, the present one is its own.
		h.session = c.keeper.Current()
		if h.session != nil && h.ctx.Err() == nil {
			return h, nil
		}
		h.idle()
		if err := h.giveUp(ctx); err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// others reports whether it was for others that a lock was waited for in vain: etcd answers, and
// has somebody in the queue, or this one could queue. That it could is not enough: a session
// outlives an etcd that has gone for a while.
func (c *claim) others() bool {
	ctx, cancel := context.WithTimeout(context.Background(), lastAsk)
	defer cancel()
	resp, err := c.first(ctx)
	return err == nil && (len(resp.Kvs) > 0 || c.keeper.Current() != nil)
}

// first asks etcd for who has it: who is first in the queue.
func (c *claim) first(ctx context.Context) (*clientv3.GetResponse, error) {
	_, name := c.cfg.kind()
	return c.client.Get(ctx, c.cfg.queues().Queue(name), clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

func (c *claim) takeOnce(ctx context.Context) (*held, error) {
	if c.all != nil {
		return c.lead(ctx)
	}
	var opts []lock.Option
	if c.cfg.Shared {
		opts = append(opts, lock.Shared())
	}
	var h lock.Held
	var err error
	if c.cfg.Try {
		var taken bool
		if h, taken, err = c.locks.TryAcquire(ctx, c.cfg.Lock, opts...); err == nil && !taken {
			return nil, errBusy
		}
	} else {
		h, err = c.locks.Acquire(ctx, c.cfg.Lock, opts...)
	}
	if err != nil {
		return nil, err
	}
	return &held{ctx: h.Context(), key: h.(etcdlock.Held).Key(), token: h.Token(), idle: func() {}, giveUp: h.Release}, nil
}

// lead waits for a term, which lasts until it is given up or lost: the election waits for the
// function in it.
func (c *claim) lead(ctx context.Context) (*held, error) {
	e, err := c.all.Stand(c.cfg.Election)
	if err != nil {
		return nil, err
	}
	terms, over, left := make(chan *elections.Term, 1), make(chan struct{}), make(chan error, 1)
	go func() { // ends by ctx, or by idle
		left <- e.Lead(ctx, func(_ context.Context, t election.Term) error {
			terms <- t.(*elections.Term) // which has a key to show the guard
			<-over
			return nil
		})
	}()
	select {
	case t := <-terms:
		h := &held{ctx: t.Context(), key: t.Key(), token: t.Token()}
		h.idle = func() { close(over); <-left }
		h.giveUp = func(ctx context.Context) error {
			if err := e.Resign(ctx); !errors.Is(err, election.ErrNotLeader) {
				return err
			}
			return nil // it is lost already
		}
		return h, nil
	case err := <-left:
		return nil, err
	}
}
