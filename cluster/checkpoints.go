package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/processor"
)

// Checkpoints implements processor.Checkpoint: it stores the positions of the cluster's processors in etcd, as
// processor.Etcd does. All methods are safe for concurrent use. They block until etcd has answered,
// Config.RequestTimeout has passed, or ctx ends. Their error is ErrNotStarted until Start has returned, and
// ErrStopped after Stop.
type Checkpoints struct{ c *Cluster }

// Checkpoints returns the checkpoints of the cluster's processors. It is never nil.
func (c *Cluster) Checkpoints() *Checkpoints { return &c.checkpoints }

var _ processor.Checkpoint = (*Checkpoints)(nil)

// Claim implements processor.Checkpoint.
func (k *Checkpoints) Claim(ctx context.Context, name string, token int64) (processor.Mark, error) {
	p, err := k.c.runningParts()
	if err != nil {
		return processor.Mark{}, err
	}
	return p.work.checkpoints.Claim(ctx, name, token)
}

// Advance implements processor.Checkpoint.
func (k *Checkpoints) Advance(ctx context.Context, name string, at processor.Mark,
	work func(ctx context.Context) (processor.Progress, error)) (processor.Mark, error) {
	p, err := k.c.runningParts()
	if err != nil {
		return at, err
	}
	return p.work.checkpoints.Advance(ctx, name, at, work)
}

// Parked returns the events that the named processor has given up; see [processor.Etcd.Parked].
func (k *Checkpoints) Parked(ctx context.Context, name string) ([]processor.Parked, error) {
	p, err := k.c.runningParts()
	if err != nil {
		return nil, err
	}
	return p.work.checkpoints.Parked(ctx, name)
}

// Forget removes a parked event; see [processor.Etcd.Forget].
func (k *Checkpoints) Forget(ctx context.Context, name string, at processor.Position) error {
	p, err := k.c.runningParts()
	if err != nil {
		return err
	}
	return p.work.checkpoints.Forget(ctx, name, at)
}

// Rewind sets the processor's position; see [processor.Etcd.Rewind].
func (k *Checkpoints) Rewind(ctx context.Context, name string, to processor.Position) error {
	p, err := k.c.runningParts()
	if err != nil {
		return err
	}
	return p.work.checkpoints.Rewind(ctx, name, to)
}

// Unfence clears the processor's fence; see [processor.Etcd.Unfence].
func (k *Checkpoints) Unfence(ctx context.Context, name string) error {
	p, err := k.c.runningParts()
	if err != nil {
		return err
	}
	return p.work.checkpoints.Unfence(ctx, name)
}
