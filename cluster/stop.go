package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Stop hands everything over and leaves the cluster. It takes these steps in order:
//
//   - It marks the node as stopping, resigns and leaves the queue.
//   - It waits until other nodes own its shards, and releases them.
//   - It ends the work under locks and the running effects.
//   - It says goodbye to the nodes that it watches and to its watchers, and serves running calls to their end.
//   - It revokes the session, so that nothing of the node is left in etcd, and waits for every goroutine.
//
// If ctx ends first, Stop cancels running calls and revokes the session immediately. The error is then a
// [CutShortError]. It is also one if work went on, or a lock was held, for Config.WorkTimeout after its context
// had ended, or if etcd did not answer, so that the node's keys stay for a TTL. Stopping a cluster that was never
// started closes its node. A concurrent second Stop waits for the first one, or until its own context ends; a
// later one returns the result of the first.
//
// After Stop has returned, some goroutines of gRPC and of the etcd client may still be about to exit; they wait
// only to be scheduled. Connections that others hold open to the node are closed.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	switch c.phase {
	case phaseNew:
		c.recordEnd(nil)
		c.mu.Unlock()
		return c.node.Close()
	case phaseStarting:
		c.mu.Unlock()
		return fmt.Errorf("stop: %w: end the context of Start instead", ErrNotStarted)
	case phaseRunning:
		c.phase = phaseStopping
		p := c.parts.Load()
		c.mu.Unlock()
		err := c.stopParts(ctx, p)
		c.mu.Lock()
		c.recordEnd(err)
		c.mu.Unlock()
		return err
	}
	c.mu.Unlock()
	select {
	case <-c.stopped:
		return c.stopErr
	case <-ctx.Done():
	}
	select {
	case <-c.stopped: // also if ctx had already ended
		return c.stopErr
	default:
		return context.Cause(ctx)
	}
}

// recordEnd records that the node does not run any more, or never will. The caller holds the lock.
func (c *Cluster) recordEnd(err error) {
	c.phase, c.stopErr = phaseEnded, err
	c.finished.Store(true)
	c.parts.Store(nil)
	close(c.stopped)
}

// stopParts stops the parts in order.
func (c *Cluster) stopParts(ctx context.Context, p *nodeParts) error {
	cut := &CutShortError{Etcd: strings.Join(p.client.Endpoints(), ","), TTL: ttlOf(c.cfg)}
	step := func(what string, err error) {
		if err != nil {
			cut.Steps = append(cut.Steps, &stepError{step: what, err: err})
		}
	}
	c.log.Info("stopping", "address", c.node.AdvertiseAddress())
	c.node.MarkStopping()
	p.objects.markStopping()
	s := p.Keeper.Current()
	stands := s != nil && s.Period().ValidDespitePause()
	if stands {
		cut.TTL = s.TTL()
	}
	marked := p.Member.MarkStopping(ctx) // reports also that etcd answers, so other nodes can take over
	if stands && !marked && ctx.Err() != nil {
		step("mark stopping", context.Cause(ctx))
	}
	// Without a session there is nothing to leave, but a new session must not queue again. So withdraw in any
	// case.
	step("leave the election", p.Consensus.Withdraw(ctx))
	if marked {
		step("hand the shards over", p.Member.HandOverShards(ctx))
	}
	step("release the shards", p.Member.ReleaseShards(ctx))
	c.closeExclusiveWork(ctx, p.work, step)
	p.Detector.Stop(ctx) // says goodbye to the watched nodes, as node.Stop does to the watchers
	step("end the calls of other nodes", p.objects.closeIncoming(ctx))
	step("stop serving", c.node.Stop(ctx))
	p.objects.close()
	if len(cut.Steps) == 0 {
		p.Member.MarkLeft(ctx)
	}
	leaving, left := context.WithTimeout(ctx, p.Member.MarkTimeout())
	p.events.RecordLastEvents(leaving)
	left()
	cut.Left = p.Member.EndSession() // revokes the session
	step("stop the election", ignoreStopped(p.Consensus.Stop(ctx)))
	p.closeTracked()
	c.closeClient(p.client)
	about := []any{"address", c.node.AdvertiseAddress()}
	// Otherwise Start has failed, or other nodes see this one until its lease ends.
	if c.parts.Load() == p && cut.Left == nil {
		about = append(about, event.Field, string(event.NodeLeft))
	}
	c.log.Info("stopped", about...)
	logqueue.Flush(ctx, c.log)
	cut.Cause = context.Cause(ctx)
	if len(cut.Steps) == 0 && cut.Left == nil {
		return nil
	}
	return cut
}

// ignoreStopped drops leaderelection.ErrStopped: without a session there is nothing to withdraw from.
func ignoreStopped(err error) error {
	if errors.Is(err, leaderelection.ErrStopped) {
		return nil
	}
	return err
}

func (c *Cluster) closeClient(client *clientv3.Client) {
	if c.cfg.Client == nil {
		_ = client.Close() // its error only says that its context was cancelled
	}
}
