package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest/fault"
)

// sampling is the interval at which IsLeader is called on both nodes.
const sampling = time.Millisecond

// faultKind is one kind of network fault, with the limit for the time to the next leader.
type faultKind struct {
	name  string
	lost  fault.Direction // direction of the dropped packets between a node and etcd
	limit func(ttl time.Duration) time.Duration
	rule  string
}

// cutOff disconnects leaders, of Goverse and of the peer, from a healthy etcd.
func cutOff(ctx context.Context, env Env, r *report.Result) error {
	ttl := time.Duration(env.pick(10, 2)) * time.Second
	kinds := []faultKind{
		{"packets dropped both ways", fault.Both,
			func(ttl time.Duration) time.Duration { return ttl + time.Second }, "TTL + 1 s"},
		{"replies alone dropped", fault.FromTarget,
			func(ttl time.Duration) time.Duration { return 2*ttl + time.Second }, "2 TTL + 1 s"},
	}
	runs := env.pick(16, 2)
	return withEtcd(func(p *etcdproc.Process) error {
		for i, kind := range kinds {
			env.Log("T4: %s, %d leaders at a time, TTL %v", kind.name, runs, ttl)
			if err := cutMany(ctx, p, kind, fmt.Sprintf("T4-%d", i+1), runs, ttl, r); err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
		}
		r.Note("%d pairs of nodes per fault, each pair with its own prefix; the leader's connections to etcd run "+
			"through a relay that at a random instant of the renewal cycle stops to forward, and closes nothing. TTL "+
			"%v.", runs, ttl)
		r.Note("One goroutine per pair asks every %v, first the next one and then the old one: an overlap is an instant "+
			"at which both said yes. The distance is from the last yes of the old one to the first yes of the next.", sampling)
		r.Note("Beside it, through a relay with the same fault: `concurrency.Election` on `concurrency.Session`s with the " +
			"same TTL; " +
			"its distance is from the closing of the cut-off one's `Done` to the return of the next one's `Campaign`.")
		return nil
	})
}

// cut holds the results of one run.
type cut struct {
	toNext, distance         time.Duration
	overlaps                 int
	peerToNext, peerDistance time.Duration
}

func cutMany(ctx context.Context, p *etcdproc.Process, kind faultKind, plot string, runs int, ttl time.Duration,
	r *report.Result) error {
	cuts, errs := make([]cut, runs), make([]error, runs)
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 3*ttl+30*time.Second)
			defer cancel()
			cuts[i], errs[i] = cutOne(ctx, p.Endpoint, fmt.Sprintf("/cut-%d-%d", kind.lost, i), kind.lost, ttl)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	next, distance := sample.Millis("goverse, "+kind.name), sample.Millis("distance, "+kind.name)
	peerNext, peerDistance := sample.Millis("concurrency.Election, "+kind.name), sample.Millis("peer's distance, "+
		""+kind.name)
	overlaps, peerOverlaps := 0, 0
	for _, c := range cuts {
		next.Add(c.toNext)
		distance.Add(c.distance)
		peerNext.Add(c.peerToNext)
		peerDistance.Add(c.peerDistance)
		if c.overlaps > 0 {
			overlaps++
		}
		if c.peerDistance < 0 {
			peerOverlaps++
		}
	}
	limit := kind.limit(ttl)
	r.Row(kind.name+": next leader", fmt.Sprintf("≤ %s = %v", kind.rule, limit),
		fmt.Sprintf("p50 %s, max %s", seconds(next.Median()), seconds(next.Max())),
		report.Judge(next.Max() <= float64(limit.Milliseconds())))
	r.Row(kind.name+": runs with an overlap", "0", fmt.Sprintf("%d of %d; smallest distance %s", overlaps, runs,
		ms(distance.P(0))),
		report.Judge(overlaps == 0))
	r.Row(kind.name+": `concurrency.Election`", "", fmt.Sprintf("p50 %s, max %s; %d of %d runs overlapped; smallest "+
		"distance %s",
		seconds(peerNext.Median()), seconds(peerNext.Max()), peerOverlaps, runs, ms(peerDistance.P(0))), report.Context)
	r.Keep(next, distance, peerNext, peerDistance)
	r.Plots = append(r.Plots, report.Plot{Name: plot, Title: "Time to the next leader, " +
		kind.name, Series: []*sample.Series{next, peerNext}})
	return nil
}

func seconds(millis float64) string { return fmt.Sprintf("%.2f s", millis/1000) }

// cutOne runs one pair of Goverse nodes and one of the peer, and cuts both off at the same time.
func cutOne(ctx context.Context, endpoint, prefix string, lost fault.Direction, ttl time.Duration) (c cut, err error) {
	rel, err := fault.NewRelay(endpoint)
	if err != nil {
		return c, err
	}
	defer rel.Close()
	cfg := cluster.Config{EtcdAddress: rel.Address(), EtcdPrefix: prefix, LeaderElectionTTL: int(ttl / time.Second),
		FixedEndpoints: true} // not past the relay
	old, err := startNode(ctx, cfg)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, stopNode(ctx, old)) }()
	defer func() { err = errors.Join(err, rel.Heal()) }() // before the node is stopped
	if err := awaitLead(ctx, old); err != nil {
		return c, err
	}
	cfg.EtcdAddress = endpoint
	next, err := startNode(ctx, cfg)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, stopNode(ctx, next)) }()
	peer, err := newPeerPair(ctx, endpoint, prefix+"-peer", int(ttl/time.Second))
	if err != nil {
		return c, err
	}
	defer peer.close()

	rest(ctx, rand.N(ttl/3))
	if !old.IsLeader() {
		return c, errors.New("the leader was lost before it was cut off")
	}
	peerDone := make(chan error, 1)
	started := time.Now()
	rel.Blackhole(lost)
	peer.relay.Blackhole(lost)
	go func() { peerDone <- peer.follow(ctx, started, &c) }() // ends with ctx at the latest
	err = followPair(ctx, old, next, started, &c)
	return c, errors.Join(err, <-peerDone)
}

// followPair polls both nodes until the next one leads, and for a second more.
func followPair(ctx context.Context, old, next *cluster.Cluster, started time.Time, c *cut) error {
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	oldManager, nextManager := old.GetConsensusManager(), next.GetConsensusManager()
	var lastOld, firstNext time.Time
	for firstNext.IsZero() || time.Since(firstNext) < time.Second {
		before := time.Now()
		// In this order both can be true only if both nodes lead at the time between the calls.
		isNext := nextManager.IsLeader()
		isOld := oldManager.IsLeader()
		if isOld {
			lastOld = time.Now()
		}
		if isNext && firstNext.IsZero() {
			firstNext = before
		}
		if isNext && isOld {
			c.overlaps++
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the next leader: %w", ctx.Err())
		}
	}
	c.toNext, c.distance = firstNext.Sub(started), firstNext.Sub(lastOld)
	return nil
}

// peerPair is two contenders of the peer; the leader is behind a relay.
type peerPair struct {
	relay     *fault.Relay
	clients   []*clientv3.Client
	old, next *concurrency.Session
	won       chan time.Time
	failed    chan error
	cancel    context.CancelFunc
}

func newPeerPair(ctx context.Context, endpoint, prefix string, ttl int) (p *peerPair, err error) {
	ctx, cancel := context.WithCancel(ctx)
	p = &peerPair{won: make(chan time.Time, 1), failed: make(chan error, 1), cancel: cancel}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.relay, err = fault.NewRelay(endpoint); err != nil {
		return nil, err
	}
	var sessions []*concurrency.Session
	for _, address := range []string{p.relay.Address(), endpoint} {
		clients, _, err := dial(ctx, address, 1)
		if err != nil {
			return nil, err
		}
		p.clients = append(p.clients, clients[0])
		s, err := concurrency.NewSession(clients[0], concurrency.WithTTL(ttl))
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, s)
	}
	p.old, p.next = sessions[0], sessions[1]
	if err := concurrency.NewElection(p.old, prefix).Campaign(ctx, "old"); err != nil {
		return nil, err
	}
	go func() { // ends with ctx at the latest
		if err := concurrency.NewElection(p.next, prefix).Campaign(ctx, "next"); err != nil {
			p.failed <- err
			return
		}
		p.won <- time.Now()
	}()
	return p, nil
}

// follow waits for the next one to win and for the old one's Done.
func (p *peerPair) follow(ctx context.Context, started time.Time, c *cut) error {
	done := make(chan time.Time, 1)
	go func() { // ends with ctx at the latest
		select {
		case <-p.old.Done():
			done <- time.Now()
		case <-ctx.Done():
		}
	}()
	var won, ended time.Time
	for won.IsZero() || ended.IsZero() {
		select {
		case won = <-p.won:
		case ended = <-done:
		case err := <-p.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("wait for the peer: %w", ctx.Err())
		}
	}
	c.peerToNext, c.peerDistance = won.Sub(started), won.Sub(ended)
	return nil
}

func (p *peerPair) close() {
	p.cancel()
	for _, c := range p.clients {
		_ = c.Close()
	}
	if p.relay != nil {
		p.relay.Close()
	}
}
