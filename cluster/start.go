package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/member/membership"
	"github.com/goverse/goverse/internal/member/registration"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// undoTimeout limits the clean-up of a Start that failed.
const undoTimeout = 3 * time.Second

func ttlOf(cfg Config) time.Duration { return time.Duration(cfg.LeaderElectionTTL) * time.Second }

// Start serves the node's gRPC and joins the cluster. It returns once the node is registered, has a first
// snapshot, and is queued for leadership, takes part in fallback, or is an observer. It does not wait until the
// node leads.
//
// While etcd cannot be reached Start keeps trying until ctx ends, so give ctx a deadline. Errors that a retry
// cannot change end it at once: another server at etcd's address, or a refused user or certificate. After an
// error everything is undone and the node is closed. The exception is a node that had been started before: the
// error is node.ErrStarted or node.ErrStopped, and the node is left alone. A cluster starts once: a second Start
// returns ErrStarted, which also matches ErrStopped once the cluster has stopped.
func (c *Cluster) Start(ctx context.Context) error {
	c.mu.Lock()
	if phase := c.phase; phase != phaseNew {
		c.mu.Unlock()
		if phase >= phaseStopping {
			return fmt.Errorf("%w: %w", ErrStopped, ErrStarted)
		}
		return ErrStarted
	}
	c.phase = phaseStarting
	c.mu.Unlock()

	p, err := c.createAndJoin(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.recordEnd(nil)
		return err
	}
	c.early.standAll(c, p)
	c.phase = phaseRunning
	// From here on OnAcquire can be called. Everything it may use is in place.
	p.StartDuties()
	return nil
}

func (c *Cluster) createAndJoin(ctx context.Context) (_ *nodeParts, err error) {
	if err := c.startNode(); err != nil {
		if errors.Is(err, node.ErrAddressInUse) || errors.Is(err, node.ErrBadAddress) {
			_ = c.node.Close() // always nil
		}
		return nil, err // otherwise another caller started the node and may be using it
	}
	defer func() {
		if err != nil {
			_ = c.node.Close() // always nil
		}
	}()
	client, err := c.connectEtcd(ctx)
	if err != nil {
		return nil, err
	}
	p, err := c.newParts(ctx, client)
	if err != nil {
		c.closeClient(client)
		return nil, err
	}
	c.startParts(p)
	if err := p.Member.Join(ctx); err != nil {
		err = c.joinError(ctx, p, err)
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		c.stopParts(undo, p)
		return nil, err
	}
	c.node.SetReady(true)
	c.log.Info("this node is part of the cluster", "address", c.node.AdvertiseAddress(), "prefix", c.cfg.EtcdPrefix,
		"members", len(p.Mirror.Snapshot().RegisteredMembers()), event.Field, string(event.NodeJoined))
	return p, nil
}

// startNode registers the services for objects and starts the node.
func (c *Cluster) startNode() error {
	if err := c.node.Register(&objectspb.Objects_ServiceDesc, &objectsServer{c: c}); err != nil {
		return err
	}
	c.node.SetRoster(c.watcherKey)
	return c.node.Start()
}

// startParts starts everything below the election.
func (c *Cluster) startParts(p *nodeParts) {
	p.Member.Start()
	p.tracked.Go(p.recordLeaders)
	p.tracked.Go(func(ctx context.Context) { p.sightings.followView(ctx, p.Mirror) })
	p.tracked.Go(func(ctx context.Context) { p.silences.followView(ctx, p.Mirror) })
	p.tracked.Go(func(ctx context.Context) { p.work.queues.Run(ctx) })
	p.tracked.Go(func(ctx context.Context) { p.work.elections.Run(ctx) })
	p.tracked.Go(func(ctx context.Context) { p.objects.routes.run(ctx, p.objects.pool.Drop) })
	p.tracked.Go(p.objects.viewMonitor.run)
	p.tracked.Go(func(ctx context.Context) { c.recordHistory(ctx, p) })
	p.tracked.Go(func(ctx context.Context) {
		changed := p.Consensus.Election().Subscribe()
		defer changed.Close()
		p.events.Run(ctx, changed.C)
	})
	if c.log.IsWarn() {
		p.tracked.Go(func(ctx context.Context) {
			membership.CheckHostname(ctx, c.node.AdvertiseAddress(), c.lookup, c.log)
		})
	}
}

// joinError adds the last failure to the error of a node that could not join in time.
func (c *Cluster) joinError(ctx context.Context, p *nodeParts, err error) error {
	err = registration.ExplainJoin(ctx, c.cfg.connectConfig(connect.SettingNamesOf(ctx)),
		registration.RequiredRights(c.keys), err, p.LastError())
	return fmt.Errorf("join the cluster under %s: %w", c.cfg.EtcdPrefix, err)
}

// recordLeaders remembers when each leader was first seen.
func (p *nodeParts) recordLeaders(ctx context.Context) {
	election := p.Consensus.Election()
	sub := election.Subscribe()
	defer sub.Close()
	wait.Each(ctx, sub.C, func() { p.leaders.recordLeader(election.Leader(), time.Now()) })
}
