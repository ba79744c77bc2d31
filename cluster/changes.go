package cluster

import (
	"context"

	"github.com/goverse/goverse/internal/wait"
)

// SignalChanges returns a channel that signals changes in this node's view of the cluster: its leader, members,
// queue, shards and requests. One signal may stand for several changes. The channel closes when ctx ends or the
// node stops, and never otherwise. Errors are ErrNotStarted and ErrStopped.
func (c *Cluster) SignalChanges(ctx context.Context) (<-chan struct{}, error) {
	p, err := c.runningParts()
	if err != nil {
		return nil, err
	}
	out := wait.NewSignal()
	started := p.tracked.Go(func(rest context.Context) {
		defer close(out)
		state := p.Mirror.Subscribe(nil)
		defer state.Close()
		leader := p.Consensus.Election().Subscribe()
		defer leader.Close()
		for {
			select {
			case <-state.C:
			case <-leader.C:
			case <-ctx.Done():
				return
			case <-rest.Done():
				return
			}
			out.Send()
		}
	})
	if !started {
		return nil, ErrStopped
	}
	return out, nil
}
