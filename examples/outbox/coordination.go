package main

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/node"
)

// idleTimeout limits how long a process that is paused in a transaction delays the next leader.
const idleTimeout = 5 * time.Second

// coordination holds the means by which the publishers agree on one of them.
type coordination struct {
	lock       processor.LeaderLock
	checkpoint processor.Checkpoint
	leave      func(ctx context.Context) error // ends them
}

// joinCluster joins the publishers that agree by etcd.
func joinCluster(ctx context.Context, cfg config, _ *pgxpool.Pool, log hclog.Logger) (coordination, error) {
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen})
	if err != nil {
		return coordination{}, err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: cfg.prefix,
		LeaderElectionTTL: cfg.ttl,
		Logger:            log.Named("cluster"), Sharding: cluster.Sharding{Off: true}}, n)
	if err != nil {
		return coordination{}, err
	}
	if err := c.Start(ctx); err != nil {
		return coordination{}, err
	}
	return coordination{processor.Election(c.Elections(), "outbox"), c.Checkpoints(), c.Stop}, nil
}

// openSession joins the publishers that agree by the database.
func openSession(ctx context.Context, cfg config, db *pgxpool.Pool, log hclog.Logger) (coordination, error) {
	checkpoints, err := postgres.New(postgres.Config{DB: db, IdleTimeout: idleTimeout})
	if err != nil {
		return coordination{}, err
	}
	if err := checkpoints.CreateTables(ctx); err != nil {
		return coordination{}, err
	}
	session, err := pgsession.Open(ctx, pgsession.Config{URL: cfg.postgres, Deadline: time.Duration(cfg.ttl) * time.Second,
		Logger: log.Named("session")})
	if err != nil {
		return coordination{}, err
	}
	return coordination{processor.Lock(lockpg.New(session), "outbox"), checkpoints, session.Close}, nil
}
