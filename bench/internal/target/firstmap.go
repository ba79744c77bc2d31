package target

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster/shard"
)

// dealing measures the assignment of the shards: computing it and distributing it.
func dealing(ctx context.Context, env Env, r *report.Result) error {
	// One heap holds the data of a hundred nodes; its collection stops all of them.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	w, rounds := newWalk(), env.pick(planRounds, 20)
	env.Log("T10: %d rounds of plans", rounds)
	for range rounds {
		if err := w.round(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	w.report(r)
	sizes := []int{3, 100}
	if env.Quick {
		sizes = []int{3, 10}
	}
	if err := fleet.EnoughFiles(sizes[len(sizes)-1]); err != nil {
		return err
	}
	for _, n := range sizes {
		c := newChanges(n)
		if err := c.run(ctx, env, env.pick(3, 1), env.pick(10, 1)); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
		c.report(r)
	}
	r.Note("*Plans*: the members and the map are values, without a cluster; %d shards, %d members. They come and go at "+
		"random and are replaced, %d rounds, so "+
		"that the map is as uneven as one that has served for long, and *moves* are counted by comparing maps. *Fewest*: "+
		"what has to move at least so that the "+
		"members that stay own everything and differ by at most one, from the loads before alone. A join is what a leader "+
		"computes on it: that nothing must move, and what may.",
		shard.DefaultCount, planMembers, rounds)
	r.Note("*Nodes*: whole ones, all in this process, with crash detection, TTL %v and %d shards. *Killed*: its "+
		"connections to etcd and to the others end without a "+
		"goodbye, and what it has at etcd stays. Maps and reports are those that a bare watch of their keys showed until "+
		"all shards were served by their owners, evenly, and %v more. A report is due from each member from which a "+
		"map takes shards, unless it is gone "+
		"before, as one that stops may be; "+
		"further ones would be of stragglers, of which there are none here.", scaleTTL, shard.DefaultCount, straggling)
	r.Note("*Requests* are the messages that etcd received, by its own counters, on average of each change's; " +
		"the same " +
		"nodes make the same changes with sharding " +
		"off too. A map or a report is one transaction. A writer asks its watch for its progress, unless the watch " +
		"has shown the write by then: that reads nothing.")
	r.Note("The budget for moves, by default twice the shards a minute, is raised: here nodes come and go " +
		"without end. " +
		"All but the *default settings* wait with " +
		"the first map until all nodes are there. Until served: from the call, looked at every 10 ms; a join waits for a " +
		"window of 1 s first.")
	return nil
}

func (w *walk) report(r *report.Result) {
	for _, p := range []*planTimes{w.bootstrap, w.join, w.leave, w.crash} {
		r.Row(p.took.Name+", computed in, p99", fmt.Sprintf("≤ %.0f ms", planGoal), fmt.Sprintf("%s, max %s of %d",
			p50p99(p.took.Median(), p.took.P(0.99)), ms(p.took.Max()),
			len(p.took.Values)), report.Judge(p.took.P(0.99) <= planGoal))
		r.Row("… moves", "the fewest", fmt.Sprintf("%d, at least %d had to", p.moved, p.fewest),
			report.Judge(p.excess == 0 && p.moved == p.fewest))
		r.Row("… spread of the loads", "≤ 1", fmt.Sprint(p.spread), report.Judge(p.spread <= 1))
		r.Keep(p.took)
	}
	for _, s := range []*sample.Series{w.encode, w.decode} {
		r.Row(s.Name, "", p50p99(s.Median(), s.P(0.99)), report.Context)
	}
	r.Keep(w.encode, w.decode)
	r.Plots = append(r.Plots, report.Plot{Name: "T10", Title: fmt.Sprintf("Plans of %d shards on %d members",
		shard.DefaultCount, planMembers),
		Series: []*sample.Series{w.bootstrap.took, w.join.took, w.leave.took, w.crash.took}})
}

func (c *changes) report(r *report.Result) {
	for _, ch := range c.all() {
		var sum dealings
		exact, needed, widest, most := true, 0, 0, 0
		for i, d := range ch.seen {
			sum.maps += d.maps
			sum.moved += d.moved
			sum.reports += d.reports
			sum.further += d.further
			sum.losing += d.losing
			needed += ch.fewest[i]
			widest, most = max(widest, spread(d.last)), max(most, d.maps)
			exact = exact && d.maps >= 1 && d.maps <= ch.maps && d.further == 0 && (d.reports == d.losing || ch.leaves &&
				d.reports < d.losing)
		}
		n := float64(len(ch.seen))
		each := func(total int) string { return fmt.Sprintf("%.4g", float64(total)/n) }
		wanted := "1 map, "
		if ch.maps > 1 {
			wanted = fmt.Sprintf("≤ %d maps, ", ch.maps)
		}
		if ch.leaves {
			wanted += "≤ "
		}
		wanted += each(sum.losing) + " reports"
		r.Row(ch.name, wanted, fmt.Sprintf("%s maps (max %d), %s reports, %s of stragglers: average of %d", each(sum.maps),
			most, each(sum.reports), each(sum.further), len(ch.seen)),
			report.Judge(exact))
		if ch.maps == 1 { // the minimum of a later map ignores the moves of an earlier one
			r.Row("… shards moved", "the fewest: "+each(needed), fmt.Sprintf("%s; spread %d", each(sum.moved), widest),
				report.Judge(sum.moved == needed && widest <= 1))
		}
		with, without := average(ch.counted), average(ch.bared)
		more := func(f func(etcdproc.Tally) float64) string { return fmt.Sprintf("%.1f", f(with)-f(without)) }
		r.Row("… requests at etcd", "", fmt.Sprintf("%.1f, with sharding off %.1f; more: %s transactions, %s reads, %s "+
			"questions how far a watch has come; %s puts; %.0f KiB sent, with sharding off %.0f KiB",
			with.Requests, without.Requests, more(func(t etcdproc.Tally) float64 { return t.Txns }),
			more(func(t etcdproc.Tally) float64 { return t.Ranges }),
			more(func(t etcdproc.Tally) float64 { return t.Asked }), more(func(t etcdproc.Tally) float64 { return t.Puts }),
			with.Sent/kib, without.Sent/kib), report.Context)
		r.Row("… until all shards are served", "", p50max(ch.served), report.Context)
		r.Keep(ch.served)
	}
	r.Row(c.floor.Name, "", p50max(c.floor), report.Context)
	r.Keep(c.floor)
}

// average returns the mean of each count.
func average(all []etcdproc.Tally) (mean etcdproc.Tally) {
	for _, t := range all {
		mean.Add(t)
	}
	for _, v := range []*float64{&mean.Requests, &mean.Txns, &mean.Ranges, &mean.Asked, &mean.Puts, &mean.Sent} {
		*v /= float64(len(all))
	}
	return mean
}
