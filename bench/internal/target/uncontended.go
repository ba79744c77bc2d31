package target

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const pairGoal = 1.1

// uncontended measures one lock without contention.
func uncontended(ctx context.Context, env Env, r *report.Result) error {
	servers, closeServers, err := withServers(ctx)
	if err != nil {
		return err
	}
	defer closeServers()
	floor, pairs := sample.Millis("two Txns of a bare client"), []*sample.Series(nil)
	err = withEtcd(func(p *etcdproc.Process) error {
		clients, closeAll, err := dial(ctx, p.Endpoint, 3)
		if err != nil {
			return err
		}
		defer closeAll()
		all, closeLocks, err := inEtcd(ctx, clients[:1], clients[1:2])
		if err != nil {
			return err
		}
		defer closeLocks()
		arms, probes := []*sample.Series{floor}, []func() error{func() error { return twoTxns(ctx, clients[2]) }}
		for _, l := range append(all, present(servers)...) {
			m, err := l.wanter(ctx, "lock", 0)
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			pairs = append(pairs, sample.Millis(l.name+": lock and unlock"))
			arms, probes = append(arms, pairs[len(pairs)-1]), append(probes, m.pair)
		}
		for i := range env.pick(1000, 20) + warmUp {
			for j, arm := range arms {
				rest(ctx, pause)
				d, err := timed(probes[j])()
				if err != nil {
					return fmt.Errorf("%s: %w", arm.Name, err)
				}
				if i >= warmUp {
					arm.Add(d)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	mine := pairs[0]
	ratio := mine.Median() / floor.Median()
	r.Row(mine.Name, fmt.Sprintf("≤ %.1f × two Txns", pairGoal), fmt.Sprintf("%s: %.2f ×", p50p99(mine.Median(),
		mine.P(0.99)), ratio), report.Judge(ratio <= pairGoal))
	r.Keep(mine)
	for _, s := range append([]*sample.Series{floor}, pairs[1:]...) {
		r.Row(s.Name, "", p50p99(s.Median(), s.P(0.99)), report.Context)
		r.Keep(s)
	}
	judgeSessions(r, pairs)
	sayAbsent(servers, r)
	r.Note("One lock, one goroutine, from the call of `Acquire` until `Release` has returned; all take turns. The bare " +
		"client's Txns write a key under a " +
		"condition, and delete it.")
	r.Note(sessionNote)
	r.Note(postgresNote)
	r.Note(redisNote)
	return nil
}

// twoTxns makes the minimum of requests for a lock: one transaction that takes it and one that releases it.
func twoTxns(ctx context.Context, c *clientv3.Client) error {
	const key = "/floor/lock"
	resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key,
		"bench")).Commit()
	if err != nil {
		return err
	}
	_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=",
		resp.Header.Revision)).Then(clientv3.OpDelete(key)).Commit()
	return err
}
