package target

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/leasequeue/elections"
)

// heldGoal limits the heap of each lock or election, in bytes.
const heldGoal = 2048

// held measures the cost of many elections and locks while one process holds them.
func held(ctx context.Context, env Env, r *report.Result) error {
	n := env.pick(10000, 200)
	return withEtcd(func(p *etcdproc.Process) error {
		clients, closeAll, err := dial(ctx, p.Endpoint, 2)
		if err != nil {
			return err
		}
		defer closeAll()
		l, err := newLocker(ctx, clients[0], "127.0.0.1:47001")
		if err != nil {
			return err
		}
		defer l.close()
		if err := l.pair(ctx, "warm"); err != nil {
			return err
		}
		before, threads := heap(), runtime.NumGoroutine()
		locks, err := holdLocks(ctx, l, n)
		if err != nil {
			return err
		}
		half, halfThreads := heap(), runtime.NumGoroutine()
		led, err := holdElections(ctx, l, n)
		if err != nil {
			return err
		}
		all, allThreads := heap(), runtime.NumGoroutine()
		leases, keys, err := leased(ctx, clients[1])
		if err != nil {
			return err
		}
		each := func(bytes uint64) float64 { return float64(bytes) / float64(n) }
		for _, row := range []struct {
			name    string
			bytes   float64
			threads int
		}{{"locks", each(half - before), halfThreads - threads}, {"elections that this process leads", each(all - half),
			allThreads - halfThreads}} {
			r.Row(fmt.Sprintf("%d %s: heap of each", n, row.name), fmt.Sprintf("≤ %d bytes", heldGoal),
				fmt.Sprintf("%.0f bytes; %d goroutines for all", row.bytes, row.threads),
				report.Judge(row.bytes <= heldGoal))
		}
		r.Row("leases that they stand on", "1", fmt.Sprintf("%d, with %d keys", leases, keys), report.Judge(leases == 1 &&
			keys >= 2*n))
		for _, h := range locks {
			if !h.Valid() {
				return fmt.Errorf("lock %q was lost", h.Name())
			}
		}
		for _, e := range led {
			if !e.IsLeader() {
				return fmt.Errorf("election %q is not led any more", e.Name())
			}
		}
		if err := heldByPeers(ctx, n, r); err != nil {
			return err
		}
		r.Note("All in one process, those in etcd over one connection. Heap is what is in use after a collection, " +
			"less what was " +
			"before. " +
			"The context of a lock or a term was not asked for, and the functions that led have returned. " +
			"An election that is led follows its queue as well: it reports the other candidates. What a peer's server " +
			"keeps for a " +
			"lock is not in the figure: PostgreSQL has room for 64 " +
			"a connection that it allows, so for 6400 by default; it allows 300 here. redsync's end after 8 s unless the " +
			"program extends each.")
		return nil
	})
}

// heldByPeers measures the same for the peers' locks, on as few connections as possible.
func heldByPeers(ctx context.Context, n int, r *report.Result) error {
	servers, closeServers, err := withServers(ctx)
	if err != nil {
		return err
	}
	defer closeServers()
	for _, l := range present(servers) {
		hold, end, err := l.many(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		if err := hold("warm"); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		before := int64(heap())
		for i := range n {
			if err := hold(fmt.Sprintf("lock %d", i)); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
		r.Row(fmt.Sprintf("%s: heap of each of %d", l.name, n), "", fmt.Sprintf("%.0f bytes; connections: %d", max(0,
			float64(int64(heap())-before)/float64(n)), max(1, l.connections)), report.Context)
		end()
	}
	sayAbsent(servers, r)
	return nil
}

func holdLocks(ctx context.Context, l *locker, n int) ([]lock.Held, error) {
	out, errs := make([]lock.Held, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i], errs[i] = l.locks.Acquire(ctx, fmt.Sprintf("lock %d", i)) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func holdElections(ctx context.Context, l *locker, n int) ([]*elections.Election, error) {
	out := make([]*elections.Election, n)
	for i := range n {
		e, err := l.elections.Stand(fmt.Sprintf("election %d", i))
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	for _, e := range out {
		if err := e.Lead(ctx, func(context.Context, leaderelection.Term) error { return nil }); err != nil {
			return nil, err
		}
	}
	for _, e := range out {
		if _, err := e.WaitForLeader(ctx); err != nil { // also waits until it has read its queue
			return nil, err
		}
	}
	return out, nil
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // collects the memory that finalizers released
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// leased returns the number of keys with a lease, and the number of their leases.
func leased(ctx context.Context, c *clientv3.Client) (leases, keys int, err error) {
	resp, err := c.Get(ctx, "/goverse/", clientv3.WithPrefix()) // a keys-only read would omit the leases
	if err != nil {
		return 0, 0, err
	}
	on := map[int64]bool{}
	for _, kv := range resp.Kvs {
		if !strings.HasPrefix(string(kv.Key), "/goverse/events/") { // events have no lease
			on[kv.Lease] = true
			keys++
		}
	}
	return len(on), keys, nil
}
