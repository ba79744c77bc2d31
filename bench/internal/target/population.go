package target

import (
	"context"
	"fmt"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster"
)

const (
	// scaleTTL is so long that no renewal falls into a run, because a session renews after a third of it. So
	// all requests counted at etcd belong to the failover.
	scaleTTL = time.Hour
	// leftPatience limits the time for etcd to notice that connections have ended.
	leftPatience = 10 * time.Second
	// stormRest is the pause after a storm before memory is read.
	stormRest = time.Second
)

// population holds the measurements of one cluster size.
type population struct {
	nodes int

	stopped, revoked  arm
	floor, floorWhole *sample.Series
	join, restart     storm
	node              usage // of all nodes at rest: their memory and etcd's
}

// scaleConfig returns the configuration of the nodes: the defaults of a cluster, apart from scaleTTL, sharding, and
// the silence time-out, whose heartbeats a thousand nodes would all send from one machine.
func scaleConfig(sharding cluster.Sharding) cluster.Config {
	return cluster.Config{LeaderElectionTTL: int(scaleTTL / time.Second), Sharding: sharding,
		CrashDetection: cluster.CrashDetection{SilenceTimeout: -1}}
}

func newPopulation(n int) *population {
	name := fmt.Sprintf("%d nodes", n)
	newArm := func(how string) arm {
		return arm{agreed: sample.Millis(name + ", " + how), whole: sample.Millis(name + ", " + how + ", from the call")}
	}
	return &population{nodes: n, stopped: newArm("the leader stops"), revoked: newArm("the leader's lease is revoked"),
		floor: sample.Millis(name + ", as many bare watchers"), floorWhole: sample.Millis(name +
			", as many bare watchers, from the call")}
}

// run takes one fleet through all measurements and checks that nothing is left of it.
func (s *population) run(ctx context.Context, env Env, p *etcdproc.Process) (err error) {
	own, err := fleet.Connect(ctx, p.Endpoint, 1)
	if err != nil {
		return err
	}
	defer fleet.Disconnect(own)
	env.Log("T5: %d nodes join at once", s.nodes)
	before, err := look(ctx, p)
	if err != nil {
		return err
	}
	f, err := fleet.New(ctx, p.Endpoint, s.nodes, scaleConfig(cluster.Sharding{Off: true}))
	if err != nil {
		return err
	}
	// After an error, only that error is reported: etcd ends next.
	defer func() {
		if err != nil {
			_ = f.Crash()
			_ = f.Stop(ctx)
		}
	}()
	if s.join, err = joinAtOnce(ctx, p, own[0], f); err != nil {
		return err
	}
	env.Log("T5: took %s", s.join)
	rest(ctx, stormRest)
	if s.node, err = look(ctx, p); err != nil {
		return err
	}
	s.node = s.node.since(before)
	samples := env.pick(failoverSamples, 2)
	env.Log("T5: %d nodes, %d failovers of each kind", s.nodes, samples)
	if err := s.failovers(ctx, p, own[0], f, samples); err != nil {
		return err
	}
	env.Log("T5: all agree, after a stop: %s; after a revocation: %s; floor: %s", p50max(s.stopped.agreed),
		p50max(s.revoked.agreed), p50max(s.floor))
	env.Log("T5: %d nodes crash and start again", s.nodes)
	if s.restart, err = restartAtOnce(ctx, p, own[0], f); err != nil {
		return err
	}
	env.Log("T5: took %s", s.restart)
	env.Log("T5: %d nodes stop", s.nodes)
	if err := f.Stop(ctx); err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, leftPatience)
	defer cancel()
	return fleet.NothingAtEtcd(patient, p, own[0])
}
