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
	// failoverSamples is the number of samples of each kind and size.
	failoverSamples = 30
	// collectEvery is the number of rounds between two garbage collections.
	collectEvery = 10
)

// arm holds the results for one way in which leaders end.
type arm struct {
	agreed, whole *sample.Series
	observed      float64 // the largest number in one failover
	tally         etcdproc.Tally
	cpu           time.Duration
}

// failovers makes n leaders stop and revokes the leases of n others, in turns. Between them it removes a key
// that as many bare watchers watch.
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
	// The heap holds the data of many processes, and its collection occupies both cores for longer than a
	// failover. So it runs only between rounds.
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

// add records one failover, less etcd's work without load: much of its processor time then goes into serving
// its metrics.
func (a *arm) add(f failover, idle etcdproc.Tally) {
	f.tally.CPU -= idle.CPU
	a.agreed.Add(f.agreed)
	a.whole.Add(f.whole)
	a.observed = max(a.observed, f.observed)
	a.tally.Add(f.tally)
	a.cpu += f.cpu
}
