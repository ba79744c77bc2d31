package target

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/goverse/goverse/bench/internal/electproc"
	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const (
	killMedianGoal = 150.0 // ms
	killP99Goal    = 300.0 // ms
)

// crash kills the processes of leaders, of Goverse and of the peer.
func crash(ctx context.Context, env Env, r *report.Result) error {
	g, err := buildGoversed(ctx)
	if err != nil {
		return err
	}
	defer g.remove()
	kills, pairs := env.pick(200, 10), env.pick(16, 2)
	busyFor, peerTTL := time.Duration(env.pick(600, 6))*time.Second, time.Duration(env.pick(10, 2))*time.Second
	return withEtcd(func(p *etcdproc.Process) error {
		env.Log("T3: %d leaders of concurrency.Election are killed, TTL %v", pairs, peerTTL)
		peers, err := killLeaders(ctx, p, []electproc.Program{electproc.Recipe}, pairs, peerTTL)
		if err != nil {
			return err
		}
		peer := peers[0]
		c := &crashes{name: "T3", env: env}
		idle, busy := newKillings("goverse"), newKillings("goverse, cores busy")
		if err := c.with(ctx, g, p, func() error {
			before, err := c.plant(ctx)
			if err != nil {
				return err
			}
			env.Log("T3: %d leaders are killed", kills)
			for len(idle.next.Values) < kills {
				if err := c.kill(ctx, idle, 50*time.Millisecond+rand.N(100*time.Millisecond)); err != nil {
					return err
				}
			}
			between := c.witness.living()
			err = c.whileBusy(ctx, busy, busyFor)
			idle.hurt, busy.hurt = between.since(before), c.witness.living().since(between)
			c.harmed = idle.harmed() || busy.harmed()
			return err
		}); err != nil {
			return err
		}
		tellKills(r, idle, busy, peer, busyFor)
		r.Note("Three `goversed node` processes with default flags (TTL 10 s) beside one etcd. The leader's gets SIGKILL; " +
			"the time is " +
			"from just before the signal to the first answer of another process whose `/cluster/status` has `is_leader`. " +
			"Then it is " +
			"started again at the same address, and the next round begins when all three are queued, agree, and watch each " +
			"other, " +
			"after 50 to 150 ms more.")
		r.Note("Both survivors are asked every %v over kept connections. The next one may have led earlier than it said, "+
			"by at most the "+
			"time since the last request was sent that was answered no: p50 %s, max %s; with the cores busy p50 %s, max %s. "+
			"That is not subtracted.",
			asking, ms(idle.unknown.Median()), ms(idle.unknown.Max()), ms(busy.unknown.Median()), ms(busy.unknown.Max()))
		r.Note("A bare client watches the cluster's keys. A node key that is removed, or a candidate's key, has to be " +
			"that of a process " +
			"that was killed; every other one counts, and a session that is lost takes both along. Before anything is " +
			"measured the leader's " +
			"node key is deleted, to show that it is counted. The same client reports when the accusation stood and when the " +
			"keys were gone.")
		r.Note("Busy: %d processes of one thread each that never sleeps, %d a core, with the same priority as all others; "+
			"a kill every %v.",
			busy.spinners, spinnersPerCore, busyGap)
		r.Note("Beside it: %d leaders of `concurrency.Election` on `concurrency.Session`s with TTL %v, each in a process "+
			"of its own that gets SIGKILL at a random instant of the renewal cycle, until the work of the next one began.",
			pairs, peerTTL)
		return nil
	})
}

func tellKills(r *report.Result, idle, busy *killings, peer *sample.Series, busyFor time.Duration) {
	n := len(idle.next.Values)
	r.Row("next leader, p50", fmt.Sprintf("≤ %.0f ms", killMedianGoal), ms(idle.next.Median()),
		report.Judge(idle.next.Median() <= killMedianGoal))
	r.Row("next leader, p99", fmt.Sprintf("≤ %.0f ms", killP99Goal), fmt.Sprintf("%s of %d kills; max %s",
		ms(idle.next.P(0.99)), n, ms(idle.next.Max())),
		report.Judge(idle.next.P(0.99) <= killP99Goal))
	tellPhases(r, "", idle)
	tellHarm(r, "", idle)
	r.Row("`concurrency.Election`: next leader", "", fmt.Sprintf("p50 %s, max %s", seconds(peer.Median()),
		seconds(peer.Max())), report.Context)
	const prefix = "cores busy: "
	r.Row(prefix+"next leader", "", fmt.Sprintf("%s, max %s of %d kills in %v; the cores were idle for %.1f %% of the "+
		"time",
		p50p99(busy.next.Median(),
			busy.next.P(0.99)), ms(busy.next.Max()), len(busy.next.Values), busyFor, 100*busy.idle), report.Context)
	tellPhases(r, prefix, busy)
	tellHarm(r, prefix, busy)
	for _, k := range []*killings{idle, busy} {
		r.Keep(k.next, k.socket, k.accused, k.removed, k.unknown)
	}
	r.Keep(peer)
	r.Plots = append(r.Plots, report.Plot{Name: "T3",
		Title:  "Time from SIGKILL of the leader's process to the next leader",
		Series: []*sample.Series{idle.next, busy.next, peer, idle.socket}})
}

// tellPhases reports the phases of a failover, each measured from the signal.
func tellPhases(r *report.Result, prefix string, k *killings) {
	for _, phase := range []struct {
		what string
		s    *sample.Series
	}{
		{"until a bare connection to the process ended", k.socket},
		{"until an accusation stood in etcd", k.accused},
		{"until its keys were removed", k.removed},
	} {
		r.Row(prefix+phase.what, "", p50p99(phase.s.Median(), phase.s.P(0.99)), report.Context)
	}
}

// tellHarm reports the effects on processes that were not killed.
func tellHarm(r *report.Result, prefix string, k *killings) {
	r.Row(prefix+"living members removed", "0", fmt.Sprintf("%d; %d accusations of living ones, %d refuted",
		k.hurt.removed, k.hurt.accused, k.refutations),
		report.Judge(k.hurt.removed == 0))
	wrong := k.hurt.unqueued + k.outOfTurn + k.usurped
	r.Row(prefix+"leaders other than the next in the queue after a kill", "0",
		fmt.Sprintf("%d; %d living ones lost their place; %d leases ran out", k.outOfTurn+k.usurped, k.hurt.unqueued,
			k.expired), report.Judge(wrong == 0))
}
