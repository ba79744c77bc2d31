package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/deadline"
)

func heartbeatEvery(timeout time.Duration) time.Duration {
	return deadline.ProofTimesOf(timeout).HeartbeatEvery().Round(time.Millisecond)
}

// idleFleets measures many idle nodes in this process, without a silence time-out and with one.
func idleFleets(ctx context.Context, env Env, r *report.Result) error {
	n, span := env.pick(silenceFleet, 20), time.Duration(env.pick(60, 3))*time.Second
	if err := fleet.EnoughFiles(n); err != nil {
		return err
	}
	var before float64
	for _, timeout := range []time.Duration{-1, suspicion.DefaultSilenceTimeout} {
		env.Log("silence: %d nodes in this process, time-out %v", n, max(timeout, 0))
		var used quietUse
		if err := withEtcd(func(p *etcdproc.Process) (err error) {
			used, err = idleFleet(ctx, p, n, timeout, env.settle(), span)
			return err
		}); err != nil {
			return fmt.Errorf("%d nodes with a silence time-out of %v: %w", n, max(timeout, 0), err)
		}
		cores := used.cores(span, n)
		measured := fmt.Sprintf("%s of a core, %.2f cores in all; %.2f requests at etcd, of a node in a minute",
			percent(cores), cores*float64(n), used.requests(span, n))
		if timeout < 0 {
			before = cores
			r.Row(fmt.Sprintf("%d idle nodes in one process, %v: processor time of a node", n, span), "", measured,
				report.Context)
			continue
		}
		r.Row(fmt.Sprintf("… with a silence time-out of %v", timeout), "", fmt.Sprintf("%s; %s of a core more; %d "+
			"accusations of silence since the start", measured, percent(cores-before), used.accusations), report.Context)
	}
	r.Note("In one process: whole nodes as in T5, with a TTL of %v, so that none renews its session meanwhile. A node "+
		"has %d watchers, however many nodes there are, and sends each a heartbeat every %v. More nodes would leave the "+
		"machine no rest to measure: a thousand in one process send %d a second.", scaleTTL, watchersEach,
		heartbeatEvery(suspicion.DefaultSilenceTimeout),
		1000*watchersEach*int64(time.Second)/int64(heartbeatEvery(suspicion.DefaultSilenceTimeout)))
	return nil
}

// idleFleet starts n nodes, and returns what they use within span while nothing happens.
func idleFleet(ctx context.Context, p *etcdproc.Process, n int, timeout, settle, span time.Duration) (used quietUse,
	err error) {
	cfg := scaleConfig(cluster.Sharding{Off: true})
	cfg.CrashDetection.SilenceTimeout = timeout
	f, err := fleet.New(ctx, p.Endpoint, n, cfg)
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, f.Stop(ctx)) }()
	joining, cancel := context.WithTimeout(ctx, stormTimeout)
	defer cancel()
	if err := f.Start(joining); err != nil {
		return used, err
	}
	if err := f.AwaitAgreement(joining); err != nil {
		return used, err
	}
	if err := awaitArmed(joining, f, timeout > 0); err != nil {
		return used, err
	}
	rest(ctx, settle)
	used.etcd, err = p.Tally(ctx, func() error {
		before := cpuTime()
		rest(ctx, span)
		used.cpu = cpuTime() - before
		return nil
	})
	for _, node := range f.Nodes {
		used.accusations += node.Status().Crashes.SilenceAccusations
	}
	return used, err
}

// awaitArmed waits until every node is watched by watchersEach others at least, and has armed them if arms is set.
func awaitArmed(ctx context.Context, f *fleet.Fleet, arms bool) error {
	for _, n := range f.Nodes {
		for {
			st := n.Status()
			if st.Watchers >= watchersEach && (!arms || st.ArmedWatchers >= watchersEach) {
				break
			}
			rest(ctx, 20*time.Millisecond)
			if ctx.Err() != nil {
				return fmt.Errorf("%s has %d watchers, %d of them armed: %w", n.Address, st.Watchers, st.ArmedWatchers,
					ctx.Err())
			}
		}
	}
	return nil
}

// isArmedLeader measures IsLeader on a leader that lives on acknowledgements.
func isArmedLeader(ctx context.Context, env Env, r *report.Result) error {
	return withEtcd(func(p *etcdproc.Process) (err error) {
		var leader *cluster.Cluster
		for i := range 2 {
			c, err := startNode(ctx, cluster.Config{EtcdAddress: p.Endpoint})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stopNode(ctx, c)) }()
			if i > 0 {
				break
			}
			leader = c
			if err := awaitLead(ctx, c); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, settling)
		defer cancel()
		for leader.Status().ArmedWatchers == 0 {
			rest(ctx, 10*time.Millisecond)
			if ctx.Err() != nil {
				return fmt.Errorf("wait until the leader has armed its watcher: %w", ctx.Err())
			}
		}
		return timeIsLeader(env, r, leader, " of a leader that lives on acknowledgements")
	})
}
