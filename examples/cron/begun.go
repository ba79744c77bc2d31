package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
)

// The last time that a leader began is kept in etcd. A new leader thereby finds a run that outlasted its
// leader, however long it took, and serves no times from before the job existed. Only the leader writes it,
// within its term.

const etcdTimeout = 2 * time.Second

// begunKey returns the key of the last time begun, under the prefix but apart from the cluster's own keys.
func begunKey(prefix, job string) string { return prefix + "/cron-begun/" + url.PathEscape(job) }

// recordBegin records that the run for due begins. It is called before the run.
func (j job) recordBegin(ctx context.Context, term leaderelection.Term, due time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	_, err := term.Txn(ctx).Then(clientv3.OpPut(j.begun, due.UTC().Format(time.RFC3339Nano))).Commit()
	return err
}

// lastBegun returns the last time recorded by recordBegin. For the job's very first leader it records and returns now.
func (j job) lastBegun(ctx context.Context, term leaderelection.Term, now time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	now = now.UTC()
	resp, err := term.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(j.begun), "=", 0)).
		Then(clientv3.OpPut(j.begun, now.Format(time.RFC3339Nano))).
		Else(clientv3.OpGet(j.begun)).Commit()
	if err != nil || resp.Succeeded {
		return now, err
	}
	value := string(resp.Responses[0].GetResponseRange().Kvs[0].Value)
	begun, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q at %s is no time; delete the key, and the job begins anew: %w",
			value, j.begun, err)
	}
	return begun, nil
}
