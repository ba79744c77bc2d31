package target

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const pairGoal = 1.1

// uncontended measures one lock that nobody else wants.
func uncontended(ctx context.Context, env Env, r *report.Result) error {
	ours, floor, peer := sample.Millis("goverse: lock and unlock"), sample.Millis("two Txns of a bare client"), sample.Millis("concurrency.Mutex: lock and unlock")
	err := withEtcd(func(p *etcdproc.Process) error {
		clients, closeAll, err := dial(ctx, p.Endpoint, 3)
		if err != nil {
			return err
		}
		defer closeAll()
		l, err := newLocker(ctx, clients[0], "bench")
		if err != nil {
			return err
		}
		defer l.close()
		s, err := concurrency.NewSession(clients[1], concurrency.WithTTL(int(lockTTL.Seconds())))
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		m := concurrency.NewMutex(s, "/peer/lock")
		arms := []struct {
			out   *sample.Series
			probe func() error
		}{
			{ours, func() error { return l.pair(ctx, "lock") }},
			{floor, func() error { return twoTxns(ctx, clients[2]) }},
			{peer, func() error {
				if err := m.Lock(ctx); err != nil {
					return err
				}
				return m.Unlock(ctx)
			}},
		}
		for i := range env.pick(1000, 20) + warmUp {
			for _, arm := range arms {
				rest(ctx, pause)
				d, err := timed(arm.probe)()
				if err != nil {
					return fmt.Errorf("%s: %w", arm.out.Name, err)
				}
				if i >= warmUp {
					arm.out.Add(d)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ratio := ours.Median() / floor.Median()
	r.Row(ours.Name, fmt.Sprintf("≤ %.1f × two Txns", pairGoal), fmt.Sprintf("%s: %.2f ×", p50p99(ours.Median(), ours.P(0.99)), ratio), report.Judge(ratio <= pairGoal))
	r.Row(floor.Name, "", p50p99(floor.Median(), floor.P(0.99)), report.Context)
	r.Row(peer.Name, "", p50p99(peer.Median(), peer.P(0.99)), report.Context)
	r.Keep(ours, floor, peer)
	r.Note("One lock, one goroutine, from the call of `Acquire` until `Release` has returned; the three take turns. The bare client's Txns write a key under a " +
		"condition, and delete it.")
	return nil
}

// twoTxns is what a lock costs at the least: one transaction that takes it, one that gives it
// back.
func twoTxns(ctx context.Context, c *clientv3.Client) error {
	const key = "/floor/lock"
	resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key, "bench")).Commit()
	if err != nil {
		return err
	}
	_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", resp.Header.Revision)).Then(clientv3.OpDelete(key)).Commit()
	return err
}
