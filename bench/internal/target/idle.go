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
)

const (
	idleNodes    = 3
	residentGoal = 40.0 // MiB
)

// writeCounters lists etcd's counters of writes, with descriptions.
var writeCounters = []struct{ metric, what string }{
	{"etcd_mvcc_put_total", "puts"},
	{"etcd_mvcc_delete_total", "deletes"},
	{"etcd_server_proposals_applied_total", "entries of etcd's log (writes, grants and revocations)"},
}

// idle counts the requests of three idle nodes at etcd and measures the memory of one. The nodes are goversed
// processes.
func idle(ctx context.Context, env Env, r *report.Result) error {
	g, err := buildGoversed(ctx)
	if err != nil {
		return err
	}
	defer g.remove()
	return withEtcd(func(p *etcdproc.Process) (err error) {
		clients, closeAll, err := dial(ctx, p.Endpoint, 1)
		if err != nil {
			return err
		}
		defer closeAll()
		var daemons []*daemon
		for range idleNodes {
			d, err := g.run(func(string) {}, "node", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--etcd", p.Endpoint)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.stop(ctx)) }()
			daemons = append(daemons, d)
		}
		if err := awaitQueue(ctx, clients[0], idleNodes); err != nil {
			return err
		}
		if err := awaitNoWrites(ctx, clients[0], env); err != nil {
			return err
		}
		span := time.Duration(env.pick(60, 5)) * time.Second
		env.Log("T15: %d idle nodes for %v", idleNodes, span)
		if err := countIdle(ctx, p, clients[0], span, r); err != nil {
			return err
		}
		return resident(daemons, r)
	})
}

// awaitQueue waits until n candidates are queued under the default prefix.
func awaitQueue(ctx context.Context, c *clientv3.Client, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		resp, err := c.Get(ctx, "/goverse/leader/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("wait until %d nodes are queued: %w", n, err)
		}
		if resp.Count == n {
			return nil
		}
		rest(ctx, 20*time.Millisecond)
	}
}

// awaitNoWrites waits until the nodes have written nothing for a while: they have shared the shards, and recorded that.
func awaitNoWrites(ctx context.Context, c *clientv3.Client, env Env) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for last := int64(0); ; rest(ctx, time.Duration(env.pick(5, 2))*time.Second) {
		resp, err := c.Get(ctx, "/none")
		if err != nil {
			return fmt.Errorf("wait until idle nodes write nothing: %w", err)
		}
		if resp.Header.Revision == last {
			return nil
		}
		last = resp.Header.Revision
	}
}

func countIdle(ctx context.Context, p *etcdproc.Process, c *clientv3.Client, span time.Duration,
	r *report.Result) error {
	look := func() (map[string]float64, int64, error) {
		resp, err := c.Get(ctx, "/none")
		if err != nil {
			return nil, 0, err
		}
		m, err := p.Metrics(ctx)
		return m, resp.Header.Revision, err
	}
	before, revBefore, err := look()
	if err != nil {
		return err
	}
	rest(ctx, span)
	after, revAfter, err := look()
	if err != nil {
		return err
	}
	grown := func(metric string) (float64, error) {
		v, ok := after[metric]
		if !ok {
			return 0, fmt.Errorf("etcd does not tell %s", metric)
		}
		return v - before[metric], nil
	}
	moved := revAfter - revBefore
	r.Row(fmt.Sprintf("%d idle nodes, %v: etcd's revision moved by", idleNodes, span), "0", fmt.Sprint(moved),
		report.Judge(moved == 0))
	for _, counter := range writeCounters {
		n, err := grown(counter.metric)
		if err != nil {
			return err
		}
		r.Row("… "+counter.what, "0", fmt.Sprintf("%.0f", n), report.Judge(n == 0))
	}
	renewed, err := grown("etcd_debugging_lease_renewed_total")
	if err != nil {
		return err
	}
	reads, err := grown("etcd_mvcc_range_total")
	if err != nil {
		return err
	}
	perNode := span.Seconds() * idleNodes
	r.Row("… lease renewals", "", fmt.Sprintf("%.0f = %.2f a node and second", renewed, renewed/perNode), report.Context)
	r.Row("… keys read", "", fmt.Sprintf("%.0f = %.2f a node and second", reads, reads/perNode), report.Context)
	r.Note("Counted by etcd itself, in its metrics, over %v with the default TTL of 10 s. A renewal is no write: it "+
		"does not "+
		"pass through etcd's log. Each is followed by a read of the keys that the session stands on.", span)
	return nil
}

func resident(daemons []*daemon, r *report.Result) error {
	rss := &sample.Series{Name: "resident memory of goversed node", Unit: "MiB"}
	own := &sample.Series{Name: "of it, not backed by files", Unit: "MiB"}
	for _, d := range daemons {
		v, err := d.memory("VmRSS")
		if err != nil {
			return err
		}
		rss.Values = append(rss.Values, v)
		if v, err = d.memory("RssAnon"); err != nil {
			return err
		}
		own.Values = append(own.Values, v)
	}
	r.Row("resident memory of a `goversed node` (VmRSS)", fmt.Sprintf("≤ %.0f MiB", residentGoal),
		fmt.Sprintf("max %.1f MiB", rss.Max()), report.Judge(rss.Max() <= residentGoal))
	r.Row("… of it heap, stacks and the like (RssAnon)", "", fmt.Sprintf("max %.1f MiB", own.Max()), report.Context)
	r.Keep(rss, own)
	return nil
}
