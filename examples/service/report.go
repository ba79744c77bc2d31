package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
)

// report is the leader's job: it sums up all counts at intervals and serves the sum over HTTP.
type report struct {
	cluster *cluster.Cluster
	counts  *counts
	key     string
	log     *slog.Logger
}

// run makes reports while this node leads, until ctx ends or the cluster stops.
func (r *report) run(ctx context.Context, every time.Duration) {
	_ = r.cluster.LeadEach(ctx, func(ctx context.Context, t leaderelection.Term) error {
		return r.lead(ctx, t, every)
	}) // its error is one of these two reasons
}

// lead makes reports until the term's context ends.
func (r *report) lead(ctx context.Context, t leaderelection.Term, every time.Duration) error {
	due := time.NewTicker(every)
	defer due.Stop()
	for {
		if err := r.writeSum(ctx, t); err != nil && ctx.Err() == nil {
			r.log.Warn("no report this time", "error", err)
		}
		select {
		case <-due.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// writeSum writes the sum in a transaction that etcd refuses once the term is over.
func (r *report) writeSum(ctx context.Context, t leaderelection.Term) error {
	all, err := r.counts.etcd.Get(ctx, r.counts.prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	var sum int64
	for _, kv := range all.Kvs {
		n, err := strconv.ParseInt(string(kv.Value), 10, 64)
		if err != nil {
			return fmt.Errorf("%s does not hold a count: %w", kv.Key, err)
		}
		sum += n
	}
	_, err = t.Txn(ctx).Then(clientv3.OpPut(r.key, strconv.FormatInt(sum, 10))).Commit()
	return err
}

// ServeHTTP serves the last report. It is called on the leader only.
func (r *report) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	got, err := r.counts.etcd.Get(req.Context(), r.key)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case len(got.Kvs) == 0:
		http.Error(w, "there is no report yet", http.StatusNotFound)
	default:
		_, _ = fmt.Fprintf(w, "%s\n", got.Kvs[0].Value) // fails only if the client has gone
	}
}
