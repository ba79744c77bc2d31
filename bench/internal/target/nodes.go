package target

import (
	"context"
	"fmt"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/node"
)

const stopTimeout = 10 * time.Second

// startNode starts a node of a cluster in this process, on a free port.
func startNode(ctx context.Context, cfg cluster.Config) (*cluster.Cluster, error) {
	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	c, err := cluster.NewClusterWithNode(cfg, n)
	if err != nil {
		_ = n.Close()
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	return c, nil
}

func stopNode(ctx context.Context, c *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return c.Stop(ctx)
}

// awaitLead waits until c leads.
func awaitLead(ctx context.Context, c *cluster.Cluster) error {
	sub := inspect.Election(c).Subscribe()
	defer sub.Close()
	for !c.IsLeader() {
		select {
		case <-sub.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until a node leads: %w", ctx.Err())
		}
	}
	return nil
}
