package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// Stop hands everything over and leaves, in this order: it marks the node as
// stopping; resigns and leaves the queue; waits until its shards are others', and releases
// them; ends what is done under locks and effects that run; says goodbye to those it watches and to its
// watchers and serves running calls to their end; revokes the session, so that nothing of the node is left in
// etcd; joins every goroutine. When ctx ends, what is left is done at once: calls
// are cut off and the session revoked. The error is a [CutShortError] then, and
// also if work went on, or a lock was held, for Config.WorkTimeout after its context had
// ended, or if etcd did not answer, so that the node's keys stay for a TTL.
// Stopping a cluster that was never started closes its node. A Stop beside another one waits
// for that, or until its own context ends; one after it returns what that returned.
//
// When Stop has returned, what is still on its way out is gRPC's and the etcd client's own
// and waits for nothing any more but its turn to run; connections that others hold open to
// the node are closed.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	switch c.phase {
	case fresh:
		c.ended(nil)
		c.mu.Unlock()
		return c.node.Close()
	case starting:
		c.mu.Unlock()
		return fmt.Errorf("stop: %w: end the context of Start instead", ErrNotStarted)
	case running:
		c.phase = stopping
		p := c.parts.Load()
		c.mu.Unlock()
		err := c.end(ctx, p)
		c.mu.Lock()
		c.ended(err)
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
	case <-c.stopped: // also where ctx had ended before
		return c.stopErr
	default:
		return context.Cause(ctx)
	}
}

// ended: the node runs no more, or never will. The lock is held.
func (c *Cluster) ended(err error) {
	c.phase, c.stopErr = ended, err
	c.over.Store(true)
	c.parts.Store(nil)
	close(c.stopped)
}

// end is the order of stopping.
func (c *Cluster) end(ctx context.Context, p *parts) error {
	cut := &CutShortError{Etcd: strings.Join(p.client.Endpoints(), ","), TTL: ttlOf(c.cfg)}
	step := func(what string, err error) {
		if err != nil {
			cut.Steps = append(cut.Steps, &stepError{what: what, err: err})
		}
	}
	c.log.Info("stopping", "address", c.node.AdvertiseAddress())
	c.node.MarkStopping()
	p.objects.markStopping()
	s := p.keeper.Current()
	stands := s != nil && s.Period().Stands()
	if stands {
		cut.TTL = s.TTL()
	}
	marked := p.core.MarkStopping(ctx) // and etcd answers, so that others can take over
	if stands && !marked && ctx.Err() != nil {
		step("mark stopping", context.Cause(ctx))
	}
	// Without a session there is nothing to leave, and the next one is not to
	// queue: so in any case.
	step("leave the election", p.manager.Withdraw(ctx))
	if marked {
		step("hand the shards over", p.core.HandOver(ctx))
	}
	step("release the shards", p.core.Relinquish(ctx))
	c.closeWork(ctx, p.work, step)
	p.detector.Stop(ctx) // says goodbye to those watched, as node.Stop to the watchers
	step("end the calls of other nodes", p.objects.closeIncoming(ctx))
	step("stop serving", c.node.Stop(ctx))
	p.objects.close()
	if len(cut.Steps) == 0 {
		p.core.MarkLeft(ctx)
	}
	leaving, left := context.WithTimeout(ctx, p.core.MarkTimeout())
	p.events.Leave(leaving)
	left()
	cut.Left = p.core.Leave() // revokes
	step("stop the election", ignoreOver(p.manager.Stop(ctx)))
	p.closeRest()
	c.closeClient(p.client)
	about := []any{"address", c.node.AdvertiseAddress()}
	// Else its Start has failed, or the others see it until its lease ends.
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

// ignoreOver: without a session there is nothing to withdraw from.
func ignoreOver(err error) error {
	if errors.Is(err, election.ErrStopped) {
		return nil
	}
	return err
}

func (c *Cluster) closeClient(client *clientv3.Client) {
	if c.cfg.Client == nil {
		_ = client.Close() // its error is that its context was cancelled
	}
}
