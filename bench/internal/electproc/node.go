package electproc

import (
	"context"
	"errors"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/node"
)

// runNode elects with a node, which has a port and no shards.
func runNode(ctx context.Context, job Job) (err error) {
	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: job.Etcd, EtcdPrefix: job.Prefix,
		LeaderElectionTTL: int(job.TTL / time.Second), FixedEndpoints: true, // not past a relay
		CrashDetection: cluster.CrashDetection{SilenceTimeout: job.SilenceTimeout},
		Sharding:       cluster.Sharding{Off: true}}, n)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.Background())) }() // hands over
	job.Queued()
	err = c.LeadEach(ctx, func(ctx context.Context, _ leaderelection.Term) error {
		job.Work(ctx)
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
