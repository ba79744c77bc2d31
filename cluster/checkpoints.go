package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/processor"
)

// Checkpoints keep in etcd how far the cluster's processors have come, as processor.Etcd does: a
// processor.Checkpoint. All methods are safe for concurrent use and block until etcd has answered,
// Config.RequestTimeout has passed, or ctx ends. Until Start has returned their error is ErrNotStarted,
// after Stop ErrStopped.
type Checkpoints struct{ c *Cluster }

// Checkpoints keep in etcd how far the cluster's processors have come. It is never nil.
func (c *Cluster) Checkpoints() *Checkpoints { return &c.checkpoints }

var _ processor.Checkpoint = (*Checkpoints)(nil)

// Claim implements processor.Checkpoint.
func (k *Checkpoints) Claim(ctx context.Context, name string, token int64) (processor.Mark, error) {
	p, err := k.c.running()
	if err != nil {
		return processor.Mark{}, err
	}
	return p.work.checkpoints.Claim(ctx, name, token)
}

// Advance implements processor.Checkpoint.
func (k *Checkpoints) Advance(ctx context.Context, name string, at processor.Mark,
	work func(ctx context.Context) (processor.Progress, error)) (processor.Mark, error) {
	p, err := k.c.running()
	if err != nil {
		return at, err
	}
	return p.work.checkpoints.Advance(ctx, name, at, work)
}

// Parked are the events that the processor of that name has given up; see [processor.Etcd.Parked].
func (k *Checkpoints) Parked(ctx context.Context, name string) ([]processor.Parked, error) {
	p, err := k.c.running()
	if err != nil {
		return nil, err
	}
	return p.work.checkpoints.Parked(ctx, name)
}

// Forget is [processor.Etcd.Forget].
func (k *Checkpoints) Forget(ctx context.Context, name string, at processor.Position) error {
	p, err := k.c.running()
	if err != nil {
		return err
	}
	return p.work.checkpoints.Forget(ctx, name, at)
}

// Rewind is [processor.Etcd.Rewind].
func (k *Checkpoints) Rewind(ctx context.Context, name string, to processor.Position) error {
	p, err := k.c.running()
	if err != nil {
		return err
	}
	return p.work.checkpoints.Rewind(ctx, name, to)
}

// Unfence is [processor.Etcd.Unfence].
func (k *Checkpoints) Unfence(ctx context.Context, name string) error {
	p, err := k.c.running()
	if err != nil {
		return err
	}
	return p.work.checkpoints.Unfence(ctx, name)
}
