package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster"
)

const (
	startFixed = 20.0 // ms
	startTxns  = 6
)

// start measures the time that a node needs to become part of a cluster.
func start(ctx context.Context, env Env, r *report.Result) error {
	n := env.pick(100, 5)
	joining, first := sample.Millis("third node joins two"), sample.Millis("first node of a cluster")
	floor := sample.Millis("Txn")
	if err := withEtcd(func(p *etcdproc.Process) (err error) {
		clients, closeAll, err := dial(ctx, p.Endpoint, 1)
		if err != nil {
			return err
		}
		defer closeAll()
		for range 2 {
			c, err := startNode(ctx, cluster.Config{EtcdAddress: p.Endpoint})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stopNode(ctx, c)) }()
		}
		for i := range n + warmUp {
			third, err := timeStart(ctx, cluster.Config{EtcdAddress: p.Endpoint})
			if err != nil {
				return err
			}
			alone, err := timeStart(ctx, cluster.Config{EtcdAddress: p.Endpoint, EtcdPrefix: fmt.Sprintf("/alone-%d", i)})
			if err != nil {
				return err
			}
			txn, err := timeTxn(ctx, clients[0])
			if err != nil {
				return err
			}
			if i >= warmUp {
				joining.Add(third)
				first.Add(alone)
				floor.Add(txn)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	limit := startFixed + startTxns*floor.Median()
	wanted := fmt.Sprintf("≤ %.0f ms + %d × Txn = %s", startFixed, startTxns, ms(limit))
	r.Row("Txn of a bare client", "", p50p99(floor.Median(), floor.P(0.99)), report.Context)
	for _, s := range []*sample.Series{joining, first} {
		r.Row(s.Name, wanted, p50p99(s.Median(), s.P(0.99)), report.Judge(s.Median() <= limit))
	}
	r.Keep(joining, first, floor)
	r.Plots = append(r.Plots, report.Plot{Name: "T14", Title: "From NewNode to the return of Start",
		Series: []*sample.Series{joining, first, floor}})
	r.Note("From the call of `node.NewNode` until `Start` has returned (registered, a first snapshot, queued), with a "+
		"connection to etcd of the node's own; %d starts of each kind and as many Txns, in turns; the medians are "+
		"compared.", n)
	return startDev(ctx, env, r)
}

// timeStart starts and stops one node, and returns the time its start took.
func timeStart(ctx context.Context, cfg cluster.Config) (time.Duration, error) {
	started := time.Now()
	c, err := startNode(ctx, cfg)
	if err != nil {
		return 0, err
	}
	took := time.Since(started)
	if err := stopNode(ctx, c); err != nil {
		return 0, err
	}
	rest(ctx, pause)
	return took, nil
}

func timeTxn(ctx context.Context, c *clientv3.Client) (time.Duration, error) {
	d, err := timed(func() error { return bareTxn(ctx, c) })()
	rest(ctx, pause)
	return d, err
}
