//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
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

// errBusy is returned when the lock is not free.
var errBusy = errors.New("held by another")

const (
	// requestTimeout limits each request to etcd.
	requestTimeout = 2 * time.Second
	// lastCheckTimeout limits the request that checks, after the time for a lock is over, whether others hold it.
	lastCheckTimeout = time.Second / 2
)

// workTimeout is the work time-out of elections: a term that is over waits until nothing of the command is left.
const workTimeout = 100 * 365 * 24 * time.Hour

// claim is this process's part in etcd: its sessions, one after the other, and the queue entries on them.
type claim struct {
	cfg       Config
	client    *clientv3.Client
	keeper    *etcdsession.Keeper
	locks     *etcdlock.Registry   // nil for an election
	elections *elections.Elections // nil for a lock
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	closed    bool

	mu   sync.Mutex
	busy chan struct{} // closed when nothing of the current command is left; nil without a command
}

// heldClaim is a term or lock that this process holds.
type heldClaim struct {
	ctx     context.Context // ends when the term or lock is lost
	session *etcdsession.Session
	key     string
	token   int64
	// declareIdle declares that no work runs under it any more. Only then can releaseTerm release it.
	declareIdle func()
	release     func(ctx context.Context) error
}

// newClaim starts the sessions and queues on client, which close closes.
func newClaim(cfg Config, client *clientv3.Client) (*claim, error) {
	c := &claim{cfg: cfg, client: client}
	root, name := cfg.Keys.Locks(), cfg.Lock
	if cfg.Election != "" {
		root, name = cfg.Keys.Elections(), cfg.Election
	}
	var err error
	process := etcd.Process{Client: client, Logger: cfg.Logger}
	c.keeper, err = etcdsession.NewKeeper(
		etcdsession.Config{Process: process, TTL: cfg.TTL, ReadKey: root.BucketPrefix(name)}, etcdsession.Hooks{
			// Wait until nothing that ran under the session is left. Only then is its lease revoked.
			OnLost: func(*etcdsession.Session, *session.LostError) { c.waitIdle() },
		})
	if err != nil {
		return nil, err
	}
	queues, err := leasequeue.New(leasequeue.Config{Process: etcd.Process{Client: client, RequestTimeout: requestTimeout,
		Logger: demoteInfoLogger{cfg.Logger}}, Keeper: c.keeper}, root)
	if err != nil {
		return nil, err
	}
	run := queues.Run
	if cfg.Election == "" {
		c.locks = etcdlock.NewRegistry(queues.Queues(root), ownerName())
	} else {
		c.elections, err = elections.New(elections.Config{Queues: queues.Queues(root), Address: ownerName(),
			WorkTimeout: workTimeout, IsFinal: connect.LacksPermission, Logger: demoteInfoLogger{cfg.Logger}})
		if err != nil {
			return nil, err
		}
		run = wait.RunAll(queues.Run, c.elections.Run)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.wg.Go(func() { _ = c.keeper.Run(ctx) }) // without a registration it never fails for good
	c.wg.Go(func() { run(ctx) })
	return c, nil
}

// close revokes the session's lease, which releases everything on it. It may be called again.
func (c *claim) close() {
	if c.closed {
		return
	}
	c.closed = true
	c.cancel()
	c.wg.Wait()
	_ = c.client.Close() // no more requests are sent
}

// beginCommand records that a command is about to run. The caller must call end when nothing of the command is left.
func (c *claim) beginCommand() (end func()) {
	done := make(chan struct{})
	c.mu.Lock()
	c.busy = done
	c.mu.Unlock()
	return func() { close(done) }
}

// waitIdle blocks while anything of a command is left.
func (c *claim) waitIdle() {
	c.mu.Lock()
	busy := c.busy
	c.mu.Unlock()
	if busy != nil {
		<-busy
	}
}

// acquire blocks until the term or lock is held, or ctx ends. Errors are ctx's cause, errBusy, and refusals by
// etcd.
func (c *claim) acquire(ctx context.Context) (*heldClaim, error) {
	if !c.cfg.Try {
		waiting, taken := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { c.logWaiting(waiting) })
		defer wg.Wait()
		defer taken()
	}
	for {
		h, err := c.acquireOnce(ctx)
		if err != nil {
			return nil, err
		}
		// There is one session at a time, so while h is held it belongs to the current one.
		h.session = c.keeper.Current()
		if h.session != nil && h.ctx.Err() == nil {
			return h, nil
		}
		h.declareIdle()
		if err := h.release(ctx); err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// blockedByOthers reports whether a wait was in vain because of other processes: etcd answers, and either the queue has
// an entry or this process has a session. A session alone is no proof, because it outlives a short outage of
// etcd.
func (c *claim) blockedByOthers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), lastCheckTimeout)
	defer cancel()
	resp, err := c.readFirstEntry(ctx)
	return err == nil && (len(resp.Kvs) > 0 || c.keeper.Current() != nil)
}

// readFirstEntry reads the first entry of the queue, which holds the lock or leads.
func (c *claim) readFirstEntry(ctx context.Context) (*clientv3.GetResponse, error) {
	_, name := c.cfg.kindAndName()
	return c.client.Get(ctx, c.cfg.claimQueues().QueuePrefix(name), clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

func (c *claim) acquireOnce(ctx context.Context) (*heldClaim, error) {
	if c.elections != nil {
		return c.acquireTerm(ctx)
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
	return &heldClaim{ctx: h.Context(), key: h.(etcdlock.Held).Key(), token: h.Token(), declareIdle: func() {},
		release: h.Release}, nil
}

// acquireTerm waits for a term, which lasts until it is given up or lost. The election waits for the function passed
// to Lead, which returns when declareIdle is called.
func (c *claim) acquireTerm(ctx context.Context) (*heldClaim, error) {
	e, err := c.elections.Stand(c.cfg.Election)
	if err != nil {
		return nil, err
	}
	terms, over, left := make(chan *elections.Term, 1), make(chan struct{}), make(chan error, 1)
	go func() { // ends with ctx, or after declareIdle
		left <- e.Lead(ctx, func(_ context.Context, t leaderelection.Term) error {
			terms <- t.(*elections.Term) // it has the key, which the command needs
			<-over
			return nil
		})
	}()
	select {
	case t := <-terms:
		h := &heldClaim{ctx: t.Context(), key: t.Key(), token: t.Token()}
		h.declareIdle = func() { close(over); <-left }
		h.release = func(ctx context.Context) error {
			if err := e.Resign(ctx); !errors.Is(err, leaderelection.ErrNotLeader) {
				return err
			}
			return nil // it is lost already
		}
		return h, nil
	case err := <-left:
		return nil, err
	}
}
