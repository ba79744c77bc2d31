package main

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/node"
)

// coordination holds the means by which the copies agree on one of them for each view.
type coordination struct {
	name  string // of this copy
	lock  func(name string) processor.LeaderLock
	pages func(g processor.Group, m processor.Manager) http.Handler // the status over HTTP
	leave func(ctx context.Context) error                           // ends them
}

// joinCluster joins the copies that agree by etcd.
func joinCluster(ctx context.Context, cfg config, address string, log hclog.Logger) (coordination, error) {
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.listen})
	if err != nil {
		return coordination{}, err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.etcd, EtcdPrefix: cfg.prefix,
		LeaderElectionTTL: cfg.ttl,
		HTTPAddress:       address, Logger: log.Named("cluster"), Sharding: cluster.Sharding{Off: true}}, n)
	if err != nil {
		return coordination{}, err
	}
	if err := c.Start(ctx); err != nil {
		return coordination{}, err
	}
	return coordination{
		name: n.AdvertiseAddress(),
		lock: func(name string) processor.LeaderLock { return processor.Election(c.Elections(), name) },
		pages: func(g processor.Group, m processor.Manager) http.Handler {
			return httpapi.New(c, httpapi.Options{Processors: g.Status, Checkpoints: m}) // /cluster/processors, /metrics …
		},
		leave: c.Stop,
	}, nil
}

// openSession joins the copies that agree by the database.
func openSession(ctx context.Context, cfg config, url string, log hclog.Logger) (coordination, error) {
	session, err := pgsession.Open(ctx, pgsession.Config{URL: cfg.postgres, Owner: url,
		Deadline: time.Duration(cfg.ttl) * time.Second, Logger: log.Named("session")})
	if err != nil {
		return coordination{}, err
	}
	locks := lockpg.New(session)
	return coordination{
		name: url,
		lock: func(name string) processor.LeaderLock { return processor.Lock(locks, name) },
		pages: func(g processor.Group, _ processor.Manager) http.Handler { // those of this copy only
			mux := http.NewServeMux()
			mux.HandleFunc("GET /cluster/processors", func(w http.ResponseWriter, _ *http.Request) {
				writeJSON(w, map[string]any{"processors": g.Status()}, nil)
			})
			return mux
		},
		leave: session.Close,
	}, nil
}
