package cluster

import "context"

// WatchChanges signals each time when what this node sees of the cluster has changed: its leader, members, queue,
// shards or requests. Several changes may make one signal. The channel closes when ctx ends or the node stops, never
// else. Errors are ErrNotStarted and ErrStopped.
func (c *Cluster) WatchChanges(ctx context.Context) (<-chan struct{}, error) {
	p, err := c.running()
	if err != nil {
		return nil, err
	}
	out := make(chan struct{}, 1)
	started := p.goRest(func(rest context.Context) {
		defer close(out)
		state := p.mirror.Subscribe(nil)
		defer state.Close()
		leader := p.manager.Election().Subscribe()
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
			select {
			case out <- struct{}{}:
			default: // there is a signal that was not received yet
			}
		}
	})
	if !started {
		return nil, ErrStopped
	}
	return out, nil
}
