package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/election"
)

// The last time that a leader began is kept in etcd: a run that outlasts its leader is found
// there however long it takes, and what was due before the job existed is nobody's business.
// Only the leader writes it, within its term.

const etcdTimeout = 2 * time.Second

// begunKey is beside what the cluster itself keeps under the prefix.
func begunKey(prefix, job string) string { return prefix + "/cron-begun/" + url.PathEscape(job) }

// begin writes down that due is begun, before it is.
func (j job) begin(ctx context.Context, term election.Term, due time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	_, err := term.Txn(ctx).Then(clientv3.OpPut(j.begun, due.UTC().Format(time.RFC3339Nano))).Commit()
	return err
}

// lastBegun is the last time that was begun. The job's very first leader begins now.
func (j job) lastBegun(ctx context.Context, term election.Term, now time.Time) (time.Time, error) {
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
