package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/effects"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
	"github.com/goverse/goverse/internal/member"
)

// exclusiveWork holds what only one node may do at a time, or once. All of it uses the node's one session and one queue
// engine.
type exclusiveWork struct {
	queues      *leasequeue.Engine
	locks       *etcdlock.Registry
	effects     *effects.Effects
	elections   *elections.Elections
	checkpoints *processor.Etcd
}

func (c *Cluster) newExclusiveWork(process etcd.Process, view *watchcache.Mirror,
	keeper *etcdsession.Keeper) (exclusiveWork, error) {
	queues, err := leasequeue.New(leasequeue.Config{Process: process.Named("queues"), Keeper: keeper, View: view},
		c.keys.Locks())
	if err != nil {
		return exclusiveWork{}, err
	}
	locks := etcdlock.NewRegistry(queues.Queues(c.keys.Locks()), c.node.AdvertiseAddress())
	once, err := effects.New(effects.Config{Queues: queues.Queues(c.keys.Effects()), Keys: c.keys,
		Owner: c.node.AdvertiseAddress(), Retention: c.cfg.OnceRetention})
	if err != nil {
		return exclusiveWork{}, err
	}
	named, err := elections.New(elections.Config{Queues: queues.Queues(c.keys.Elections()),
		Address: c.node.AdvertiseAddress(), WorkTimeout: c.cfg.WorkTimeout, PreferAfter: c.cfg.PreferAfter,
		Logger: c.log.Named("elections")})
	if err != nil {
		return exclusiveWork{}, err
	}
	checkpoints, err := processor.NewEtcd(processor.EtcdConfig{Client: process.Client, Prefix: c.cfg.EtcdPrefix,
		RequestTimeout: c.cfg.RequestTimeout})
	return exclusiveWork{queues, locks, once, named, checkpoints}, err
}

// closeExclusiveWork gives up all leaderships, grants no further locks, and waits for work under locks and for running
// effects, for as long as a leader waits for its work. The contexts of all these have ended. Work that does not
// end in time is reported as a step that was cut short.
func (c *Cluster) closeExclusiveWork(ctx context.Context, w exclusiveWork, r *member.StopReport) {
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
	// Elections wait for their work themselves; one request to etcd follows.
	wg.Go(func() { elections = within(c.cfg.WorkTimeout+c.cfg.RequestTimeout, w.elections.Close) })
	wg.Go(func() { locks = within(c.cfg.WorkTimeout, w.locks.Close) })
	wg.Go(func() { effects = within(c.cfg.WorkTimeout, w.effects.Close) })
	wg.Wait()
	r.RecordStep("end the work of named elections", elections)
	r.RecordStep("have the locks released", locks)
	r.RecordStep("end the effects that run", effects)
}
