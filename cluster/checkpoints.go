package cluster

import (
	"context"

	"github.com/goverse/goverse/cluster/processor"
)

// Checkpoints implements processor.Checkpoint and processor.Manager: it stores the positions of the cluster's
// processors in etcd, as processor.Etcd does. Requests of operators are recorded in the event log, as those of
// Events.RecordRequests. All methods are safe for concurrent use. They block until etcd has answered,
// Config.RequestTimeout has passed, or ctx ends. Their error is ErrNotStarted until Start has returned, and ErrStopped
// after Stop.
type Checkpoints struct{ c *Cluster }

// Checkpoints returns the checkpoints of the cluster's processors. It is never nil.
func (c *Cluster) Checkpoints() *Checkpoints { return &c.checkpoints }

var (
	_ processor.Checkpoint = (*Checkpoints)(nil)
	_ processor.Manager    = (*Checkpoints)(nil)
)

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

// Report implements processor.Checkpoint.
func (k *Checkpoints) Report(ctx context.Context, name string, r processor.Report) (processor.Mark, error) {
	p, err := k.c.runningParts()
	if err != nil {
		return processor.Mark{}, err
	}
	return p.work.checkpoints.Report(ctx, name, r)
}

// ParkedEvent implements processor.Checkpoint.
func (k *Checkpoints) ParkedEvent(ctx context.Context, name string, at processor.Position) (processor.Parked, error) {
	p, err := k.c.runningParts()
	if err != nil {
		return processor.Parked{}, err
	}
	return p.work.checkpoints.ParkedEvent(ctx, name, at)
}

// List implements processor.Manager.
func (k *Checkpoints) List(ctx context.Context, q processor.Query) (found []processor.Standing, more bool, err error) {
	p, err := k.c.runningParts()
	if err != nil {
		return nil, false, err
	}
	return p.work.checkpoints.List(ctx, q)
}

// Look implements processor.Manager.
func (k *Checkpoints) Look(ctx context.Context, name string) (processor.Standing, error) {
	p, err := k.c.runningParts()
	if err != nil {
		return processor.Standing{}, err
	}
	return p.work.checkpoints.Look(ctx, name)
}

// RequestPause implements processor.Manager.
func (k *Checkpoints) RequestPause(ctx context.Context, name string, r processor.PauseRequest) error {
	return k.change(func(m processor.Manager) error { return m.RequestPause(ctx, name, r) })
}

// Rewind implements processor.Manager.
func (k *Checkpoints) Rewind(ctx context.Context, name string, to processor.Position) error {
	return k.change(func(m processor.Manager) error { return m.Rewind(ctx, name, to) })
}

// Unfence implements processor.Manager.
func (k *Checkpoints) Unfence(ctx context.Context, name string) error {
	return k.change(func(m processor.Manager) error { return m.Unfence(ctx, name) })
}

// Parked implements processor.Manager.
func (k *Checkpoints) Parked(ctx context.Context, name string) ([]processor.Parked, error) {
	p, err := k.c.runningParts()
	if err != nil {
		return nil, err
	}
	return p.work.checkpoints.Parked(ctx, name)
}

// RequestRetry implements processor.Manager.
func (k *Checkpoints) RequestRetry(ctx context.Context, name string, at processor.Position) error {
	return k.change(func(m processor.Manager) error { return m.RequestRetry(ctx, name, at) })
}

// Forget implements processor.Manager.
func (k *Checkpoints) Forget(ctx context.Context, name string, at processor.Position) error {
	return k.change(func(m processor.Manager) error { return m.Forget(ctx, name, at) })
}

// change makes an operator's request, which is recorded in the event log.
func (k *Checkpoints) change(do func(m processor.Manager) error) error {
	p, err := k.c.runningParts()
	if err != nil {
		return err
	}
	return do(processor.RecordRequests(p.work.checkpoints, k.c.events.reportRequest))
}
