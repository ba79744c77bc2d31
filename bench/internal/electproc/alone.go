package electproc

import (
	"context"
	"errors"

	"github.com/goverse/goverse/cluster/leaderelection"
)

// runAlone elects with cluster/leaderelection by itself.
func runAlone(ctx context.Context, job Job) (err error) {
	election, runner, err := leaderelection.New(leaderelection.Config{EtcdAddress: job.Etcd, EtcdPrefix: job.Prefix,
		ID: job.ID, TTL: job.TTL})
	if err != nil {
		return err
	}
	if err := runner.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Stop(context.Background())) }() // hands over
	job.Queued()
	err = election.LeadEach(ctx, func(ctx context.Context, _ leaderelection.Term) error {
		job.Work(ctx)
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
