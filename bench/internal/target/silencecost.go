package target

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/crash/suspicion"
)

const (
	// silenceNodes is the number of nodes that are processes, silenceFleet that of nodes in this process.
	silenceNodes, silenceFleet = 12, 300
	// watchersEach is the number of nodes that watch each.
	watchersEach = 2
	// silenceCores limits the processor time that the time-out adds to a node, in cores. silenceRequests limits the
	// difference of requests at etcd, of a node in a minute: a renewal and its read, more or less in that minute.
	silenceCores, silenceRequests = 0.005, 2.0
)

// silenceCost compares nodes with a silence time-out and nodes without, while nothing happens.
func silenceCost(ctx context.Context, env Env, r *report.Result) error {
	for _, measure := range []func(context.Context, Env, *report.Result) error{idleMembers, idleFleets, isArmedLeader} {
		if err := measure(ctx, env, r); err != nil {
			return err
		}
	}
	return nil
}

// idleMembers compares two clusters of processes, one with a silence time-out and one without, at the same time.
func idleMembers(ctx context.Context, env Env, r *report.Result) (err error) {
	g, err := buildGoversed(ctx)
	if err != nil {
		return err
	}
	defer g.remove()
	var both []*quiet
	defer func() {
		for _, q := range both {
			err = errors.Join(err, q.stop(ctx), q.server.Stop())
		}
	}()
	for _, timeout := range []time.Duration{0, suspicion.DefaultSilenceTimeout} {
		server, err := etcdproc.Start()
		if err != nil {
			return err
		}
		q := &quiet{server: server, timeout: timeout, daemons: daemons{g: g, etcd: server.Endpoint,
			flags: []string{"--silence-timeout", timeout.String()}}}
		both = append(both, q)
		if err := q.add(silenceNodes); err != nil {
			return err
		}
		if err := q.awaitReady(ctx); err != nil {
			return err
		}
	}
	rest(ctx, env.settle())
	span := time.Duration(env.pick(60, 5)) * time.Second
	env.Log("silence: two clusters of %d idle nodes for %v", silenceNodes, span)
	if err := measureQuiet(ctx, span, both...); err != nil {
		return err
	}
	tellQuiet(r, span, both[0], both[1])
	return nil
}

// settle returns the time after which idle nodes have nothing left to do.
func (e Env) settle() time.Duration { return time.Duration(e.pick(10, 1)) * time.Second }

// quiet is a cluster of idle processes with an etcd of its own.
type quiet struct {
	daemons
	server  *etcdproc.Process
	timeout time.Duration
	used    quietUse // while it was measured
}

// quietUse is what idle nodes have used.
type quietUse struct {
	cpu         time.Duration // of all nodes
	etcd        etcdproc.Tally
	accusations int64 // of silence, since the start
}

// awaitReady waits until all nodes know each other, and are armed if they have a time-out.
func (q *quiet) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		err := q.check(ctx)
		if err == nil {
			return nil
		}
		rest(ctx, 50*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("the nodes are not whole within %v: %w", settling, err)
		}
	}
}

// check returns an error unless all nodes know each other, and those with a time-out live on acknowledgements. It
// counts their accusations of silence.
func (q *quiet) check(ctx context.Context) error {
	armed, proof := 0, cluster.ProofNone
	if q.timeout > 0 {
		armed, proof = watchersEach, cluster.ProofAcknowledged
	}
	q.used.accusations = 0
	for _, m := range q.members {
		st, err := m.status(ctx)
		if err != nil {
			return err
		}
		if !st.ClusterReady || len(st.Nodes) != silenceNodes || len(st.Queue) != silenceNodes ||
			st.Crashes.Watchers != watchersEach || st.Crashes.ArmedWatchers != armed || st.Crashes.Proof != string(proof) {
			return fmt.Errorf("%s shows %+v", m.address, st)
		}
		q.used.accusations += st.Crashes.SilenceAccusations
	}
	return nil
}

// measureQuiet measures clusters for a time, all at once.
func measureQuiet(ctx context.Context, span time.Duration, clusters ...*quiet) error {
	errs := make([]error, len(clusters))
	var wg sync.WaitGroup
	for i, q := range clusters {
		wg.Go(func() {
			errs[i] = q.measure(ctx, span)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (q *quiet) measure(ctx context.Context, span time.Duration) (err error) {
	var pids []int
	for _, m := range q.members {
		pids = append(pids, m.daemon.cmd.Process.Pid)
	}
	var before, after time.Duration
	q.used.etcd, err = q.server.Tally(ctx, func() (err error) {
		if before, err = cpuTimesOf(pids); err != nil {
			return err
		}
		rest(ctx, span)
		after, err = cpuTimesOf(pids)
		return err
	})
	q.used.cpu = after - before
	return errors.Join(err, q.check(ctx))
}

// cores returns the share of a core that one of n nodes has used.
func (u *quietUse) cores(span time.Duration, n int) float64 {
	return u.cpu.Seconds() / span.Seconds() / float64(n)
}

// requests returns the requests at etcd of one of n nodes in a minute.
func (u *quietUse) requests(span time.Duration, n int) float64 {
	return u.etcd.Requests / span.Minutes() / float64(n)
}

func percent(share float64) string { return fmt.Sprintf("%.3f %%", 100*share) }

func tellQuiet(r *report.Result, span time.Duration, plain, timed *quiet) {
	with := fmt.Sprintf("… with a silence time-out of %v", timed.timeout)
	before, after := plain.used.cores(span, silenceNodes), timed.used.cores(span, silenceNodes)
	r.Row(fmt.Sprintf("%d idle nodes, %v: processor time of a node", silenceNodes, span), "", percent(before)+" of a core",
		report.Context)
	r.Row(with, fmt.Sprintf("≤ %s of a core more", percent(silenceCores)), fmt.Sprintf("%s of a core, %s more",
		percent(after), percent(after-before)), report.Judge(after-before <= silenceCores))
	before, after = plain.used.requests(span, silenceNodes), timed.used.requests(span, silenceNodes)
	r.Row("… requests at etcd, of a node in a minute", "", fmt.Sprintf("%.2f", before), report.Context)
	r.Row(with, fmt.Sprintf("as many, ± %.0f", silenceRequests), fmt.Sprintf("%.2f", after),
		report.Judge(after-before <= silenceRequests && before-after <= silenceRequests))
	r.Row("… accusations of silence", "0", fmt.Sprint(timed.used.accusations), report.Judge(timed.used.accusations == 0))
	r.Note("%d `goversed node` with `--silence-timeout %v` and as many without, each cluster with an etcd of its own, at "+
		"the same time, with the default TTL of 10 s. Processor time is that of the processes, by the kernel; requests are "+
		"counted by etcd. Each node has two watchers, which acknowledge a heartbeat every %v.", silenceNodes, timed.timeout,
		heartbeatEvery(timed.timeout))
}
