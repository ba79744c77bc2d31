package target

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/internal/state"
)

const (
	// failoverSamples are taken of each kind and size.
	failoverSamples = 30
	// collectEvery so many rounds the heap is collected.
	collectEvery = 10
)

// arm is one way in which leaders go.
type arm struct {
	agreed, whole *sample.Series
	observed      float64 // the most in one failover
	tally         etcdproc.Tally
	cpu           time.Duration
}

// failovers makes n leaders stop and revokes the leases of as many, in turns, and
// between them removes a key that as many bare watchers watch.
func (s *population) failovers(ctx context.Context, p *etcdproc.Process, client *clientv3.Client, f *fleet.Fleet,
	n int) error {
	keys, err := state.NewKeys("/goverse")
	if err != nil {
		return err
	}
	bare, closeAll, err := dial(ctx, p.Endpoint, fleet.Connections(s.nodes))
	if err != nil {
		return err
	}
	defer closeAll()
	w, err := watch(ctx, bare, "/floor/", s.nodes)
	if err != nil {
		return err
	}
	defer w.close()
	lookouts, closeLookouts, err := dial(ctx, p.Endpoint, 1)
	if err != nil {
		return err
	}
	defer closeLookouts()
	lookout, err := fleet.Watch(ctx, lookouts[0], keys.Prefix()+"/")
	if err != nil {
		return err
	}
	defer lookout.Close()
	agreement := fleet.Follow(f.Nodes...)
	defer agreement.Close()
	// The heap holds what would be in as many processes, and collecting it takes both
	// cores for longer than a failover takes. So it waits for its turn.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	a := &arena{process: p, client: client, keys: keys, fleet: f, agreement: agreement, lookout: lookout}
	for i := range n + 1 { // the first round warms up
		if i%collectEvery == 0 {
			runtime.GC()
		}
		stopped, err := a.stop(ctx)
		if err != nil {
			return err
		}
		revoked, err := a.revoke(ctx)
		if err != nil {
			return err
		}
		if _, err := w.put(ctx, 0); err != nil {
			return err
		}
		rest(ctx, pause)
		spread, whole, err := w.removeForAll(ctx, 0)
		if err != nil {
			return err
		}
		idle, err := p.Tally(ctx, func() error { rest(ctx, pause); return nil })
		if err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		s.stopped.add(stopped, idle)
		s.revoked.add(revoked, idle)
		s.floor.Add(spread)
		s.floorWhole.Add(whole)
	}
	return nil
}

// add takes one failover, and off it what etcd does while nothing happens: much of
// its processor time then goes into telling its counters.
func (a *arm) add(f failover, idle etcdproc.Tally) {
	f.tally.CPU -= idle.CPU
	a.agreed.Add(f.agreed)
	a.whole.Add(f.whole)
	a.observed = max(a.observed, f.observed)
	a.tally.Add(f.tally)
	a.cpu += f.cpu
}
