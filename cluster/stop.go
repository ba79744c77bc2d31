package cluster

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/wait"
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
// started closes its node. While Start has not returned, Stop does nothing and returns an error that matches
// ErrNotStarted: end the context of Start. A concurrent second Stop waits for the first one, or until its own context
// ends; a later one returns the result of the first.
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
	if err := wait.UntilClosed(ctx, c.stopped); err != nil {
		return err
	}
	return c.stopErr
}

// recordEnd records that the node does not run any more, or never will. The caller holds the lock.
func (c *Cluster) recordEnd(err error) {
	c.phase, c.stopErr = phaseEnded, err
	c.finished.Store(true)
	c.parts.Store(nil)
	close(c.stopped)
}

// stopParts stops the parts in the order of [member.Member.Stop].
func (c *Cluster) stopParts(ctx context.Context, p *nodeParts) error {
	c.log.Info("stopping", "address", c.node.AdvertiseAddress())
	cut := &CutShortError{Etcd: strings.Join(p.client.Endpoints(), ","), TTL: ttlOf(c.cfg)}
	if s := p.Keeper.Current(); s != nil && s.Period().ValidDespitePause() {
		cut.TTL = s.TTL()
	}
	c.node.MarkStopping()
	p.objects.markStopping()
	r := p.Stop(ctx, member.StopHooks{
		EndWork: func(ctx context.Context, r *member.StopReport) { c.closeExclusiveWork(ctx, p.work, r) },
		StopServing: func(ctx context.Context, r *member.StopReport) {
			r.RecordStep("end the calls of other nodes", p.objects.closeIncoming(ctx))
			r.RecordStep("stop serving", c.node.Stop(ctx))
			p.objects.close()
		},
		WriteLast: p.events.RecordLastEvents,
		Close:     func() { p.tracked.Close(ErrStopped) },
	})
	c.closeClient(p.client)
	about := []any{"address", c.node.AdvertiseAddress()}
	// Otherwise Start has failed, or other nodes see this one until its lease ends.
	if c.parts.Load() == p && r.Left == nil {
		about = append(about, event.Field, string(event.NodeLeft))
	}
	c.log.Info("stopped", about...)
	logqueue.Flush(ctx, c.log)
	cut.Steps, cut.Left, cut.Cause = r.CutShort, r.Left, context.Cause(ctx)
	if len(cut.Steps) == 0 && cut.Left == nil {
		return nil
	}
	return cut
}

func (c *Cluster) closeClient(client *clientv3.Client) {
	if c.cfg.Client == nil {
		_ = client.Close() // its error only says that its context was cancelled
	}
}
