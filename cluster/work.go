package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/elections"
	"github.com/goverse/goverse/internal/mirror"
	"github.com/goverse/goverse/internal/session"
)

// work is what only one may do at a time, or once: all on the node's one session.
type work struct {
	locks     *lock.Etcd
	effects   *once.Effects
	elections *elections.Elections
}

func (c *Cluster) newWork(client *clientv3.Client, view *mirror.Mirror, keeper *session.Keeper) (work, error) {
	locks, err := lock.NewEtcd(lock.Config{Client: client, Keeper: keeper, Queues: c.keys.Locks(), Owner: c.node.AdvertiseAddress(),
		View: view, RequestTimeout: c.cfg.RequestTimeout, Logger: c.log.Named("locks")})
	if err != nil {
		return work{}, err
	}
	effects, err := once.New(once.Config{Client: client, Keeper: keeper, Keys: c.keys, Owner: c.node.AdvertiseAddress(),
		View: view, Retention: c.cfg.OnceRetention, RequestTimeout: c.cfg.RequestTimeout, Logger: c.log.Named("once")})
	if err != nil {
		return work{}, err
	}
	named, err := elections.New(elections.Config{Client: client, Keeper: keeper, Queues: c.keys.Elections(), Address: c.node.AdvertiseAddress(),
		View: view, WorkTimeout: c.cfg.WorkTimeout, PreferAfter: c.cfg.PreferAfter, RequestTimeout: c.cfg.RequestTimeout, Logger: c.log.Named("elections")})
	return work{locks, effects, named}, err
}

// closeWork gives every leadership up, hands out no more locks, and waits for what is done under
// them, and for effects that run, as long as a leader waits for its work: their contexts have
// ended. What of that does not end in time is a step that was cut short.
func (c *Cluster) closeWork(ctx context.Context, w work, step func(what string, err error)) {
	within := func(timeout time.Duration, end func(context.Context) error) error {
		brief, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := end(brief)
		if err != nil && brief.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("not done within WorkTimeout, %v, though the contexts have ended: %w", c.cfg.WorkTimeout, err)
		}
		return err
	}
	var elections, locks, effects error
	var wg sync.WaitGroup
	// Elections wait for their work themselves; then there is a request to be made.
	wg.Go(func() { elections = within(c.cfg.WorkTimeout+c.cfg.RequestTimeout, w.elections.Close) })
	wg.Go(func() { locks = within(c.cfg.WorkTimeout, w.locks.Close) })
	wg.Go(func() { effects = within(c.cfg.WorkTimeout, w.effects.Close) })
	wg.Wait()
	step("end the work of named elections", elections)
	step("have the locks released", locks)
	step("end the effects that run", effects)
}

// Election is the named election of that name: this node stands in it from now on, or with
// elections.Observe only follows it. Any number of them stands on the node's one session. It
// does not block. Errors are ErrNotStarted, state.ErrBadName and elections.ErrClosed.
func (c *Cluster) Election(name string, opts ...elections.Option) (*elections.Election, error) {
	p, err := c.running()
	if err != nil {
		return nil, err
	}
	return p.work.elections.Election(name, opts...)
}

// Locks are the locks of the cluster's nodes, by name, on this node's session. They may be
// handed out before Start: until that has returned, their error is ErrNotStarted. Stop ends the
// contexts of those that are held, and waits for them as long as Config.WorkTimeout.
func (c *Cluster) Locks() lock.LockRegistry { return locks{c} }

type locks struct{ c *Cluster }

// Acquire is of lock.LockRegistry.
func (l locks) Acquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, error) {
	p, err := l.c.running()
	if err != nil {
		return nil, err
	}
	return p.work.locks.Acquire(ctx, name, opts...)
}

// TryAcquire is of lock.LockRegistry.
func (l locks) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Held, bool, error) {
	p, err := l.c.running()
	if err != nil {
		return nil, false, err
	}
	return p.work.locks.TryAcquire(ctx, name, opts...)
}

// Effects are what runs at most once in the whole cluster. Nil before Start has returned.
func (c *Cluster) Effects() *once.Effects {
	p, err := c.running()
	if err != nil {
		return nil
	}
	return p.work.effects
}

// Once runs fn unless the effect of that name took place before, on whichever node; see
// [once.Effects.Once].
func (c *Cluster) Once(ctx context.Context, name string, fn func(ctx context.Context, token int64) ([]byte, error)) (once.Result, error) {
	p, err := c.running()
	if err != nil {
		return once.Result{}, err
	}
	return p.work.effects.Once(ctx, name, fn)
}

// Checkpoints keep in etcd how far the cluster's processors have come. The error is
// ErrNotStarted.
func (c *Cluster) Checkpoints() (*processor.Etcd, error) {
	p, err := c.running()
	if err != nil {
		return nil, err
	}
	return processor.NewEtcd(processor.EtcdConfig{Client: p.client, Keys: c.keys, RequestTimeout: c.cfg.RequestTimeout})
}
