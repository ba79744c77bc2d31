package target

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
)

const agreeGoal = 100.0 // ms

// scale measures clusters of several sizes.
func scale(ctx context.Context, env Env, r *report.Result) error {
	// One heap holds the data of a thousand nodes; its collection stops all of them.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	sizes := []int{10, 100, 1000}
	if env.Quick {
		sizes = []int{10, 50}
	}
	if err := fleet.EnoughFiles(sizes[len(sizes)-1]); err != nil {
		return err
	}
	var all []*population
	for _, n := range sizes {
		s := newPopulation(n)
		if err := withEtcd(func(p *etcdproc.Process) error {
			gone := fleet.Goroutines()
			if err := s.run(ctx, env, p); err != nil {
				return err
			}
			return gone()
		}); err != nil {
			return fmt.Errorf("%d nodes: %w", n, err)
		}
		s.report(r)
		all = append(all, s)
	}
	var renewal etcdproc.Tally
	renewals := env.pick(2000, 50)
	if err := withEtcd(func(p *etcdproc.Process) (err error) {
		renewal, err = renew(ctx, p, renewals)
		return err
	}); err != nil {
		return err
	}
	onPaper(r, all, renewal, renewals)
	plotScale(r, all)
	noteScale(r, env)
	return nil
}

// report writes the results of one size.
func (s *population) report(r *report.Result) {
	name := fmt.Sprintf("%d nodes", s.nodes)
	r.Row(name+": a key's deletion sent to as many bare watchers", "", p50max(s.floor), report.Context)
	for _, a := range []struct {
		*arm
		what, call string
	}{{&s.stopped, "the leader stops", "Stop"}, {&s.revoked, "the leader's lease is revoked", "Revoke"}} {
		n := float64(len(a.agreed.Values))
		r.Row(fmt.Sprintf("%s: %s, all agree", name, a.what), fmt.Sprintf("≤ %.0f ms", agreeGoal),
			p50max(a.agreed), report.Judge(a.agreed.Max() <= agreeGoal))
		r.Row("… Range requests by observers", "0", fmt.Sprintf("%.0f", a.observed), report.Judge(a.observed == 0))
		r.Row(fmt.Sprintf("… from the call of `%s`", a.call), "", p50max(a.whole), report.Context)
		r.Row("… at etcd", "", fmt.Sprintf("%.0f requests of %.1f KiB; %.0f messages to watches, %.0f KiB sent in all; "+
			"%.1f ms of its processor",
			a.tally.Requests/n, a.tally.Received/n/kib, a.tally.Delivered/n, a.tally.Sent/n/kib, millis(a.tally.CPU)/n),
			report.Context)
		r.Row("… of the nodes' processor", "", fmt.Sprintf("%.1f ms = %.0f µs a node", millis(a.cpu)/n,
			1000*millis(a.cpu)/n/float64(s.nodes)), report.Context)
		r.Keep(a.agreed, a.whole)
	}
	r.Keep(s.floor, s.floorWhole)
	r.Row(name+": all join at once, until all agree", "", s.join.String(), report.Context)
	r.Row(name+": all crash and start again at once, until all agree", "", s.restart.String(), report.Context)
	r.Row(name+": a node costs", "", s.node.each(s.nodes), report.Context)
	r.Row(name+": left after all have stopped", "0", "0 keys, leases and watches at etcd, 0 goroutines", report.Met)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func p50max(s *sample.Series) string {
	return fmt.Sprintf("p50 %s, max %s", ms(s.Median()), ms(s.Max()))
}

// plotScale plots the quantities that grow with the number of nodes, and the failovers of the largest size.
func plotScale(r *report.Result, all []*population) {
	line := func(name string, y func(*population) float64) report.Line {
		l := report.Line{Name: name}
		for _, s := range all {
			l.Points = append(l.Points, report.Point{X: float64(s.nodes), Y: y(s)})
		}
		return l
	}
	const nodes = "nodes, logarithmic"
	r.Curves = append(r.Curves,
		report.Curve{Name: "T5-failover", Title: "From the leader's key gone until all agree, medians", X: nodes,
			Y: "ms, logarithmic", Lines: []report.Line{
				line("the leader stops", func(s *population) float64 { return s.stopped.agreed.Median() }),
				line("the leader's lease is revoked", func(s *population) float64 { return s.revoked.agreed.Median() }),
				line("as many bare watchers", func(s *population) float64 { return s.floor.Median() }),
			}},
		report.Curve{Name: "T5-storm", Title: "All at once, until all agree", X: nodes, Y: "s, logarithmic",
			Lines: []report.Line{
				line("join", func(s *population) float64 { return s.join.took.Seconds() }),
				line("crash and start again", func(s *population) float64 { return s.restart.took.Seconds() }),
			}},
		report.Curve{Name: "T5-cost", Title: "What a node costs at rest", X: nodes, Y: "KiB a node, logarithmic",
			Lines: []report.Line{
				line("its heap and stacks",
					func(s *population) float64 { return (s.node.heap + s.node.stacks) / kib / float64(s.nodes) }),
				line("etcd's memory", func(s *population) float64 { return s.node.etcdResident / kib / float64(s.nodes) }),
			}})
	last := all[len(all)-1]
	r.Plots = append(r.Plots, report.Plot{Name: "T5-agree", Title: fmt.Sprintf("Until all of %d nodes agree", last.nodes),
		Series: []*sample.Series{last.stopped.agreed, last.revoked.agreed, last.floor}})
}

func noteScale(r *report.Result, env Env) {
	r.Note("Whole nodes: `node.NewNode` and `cluster.NewClusterWithNode`, all of them members and candidates, all in "+
		"this process. The first %d "+
		"have a connection to etcd each, the others share %d; each has a watch stream of its own. TTL %v, so that no "+
		"renewal falls into what is "+
		"counted. One heap is here what would be in as many processes: GOGC is %d, and the heap is collected between "+
		"failovers only.", fleet.OwnConns, fleet.SharedConns, scaleTTL, gcPercent)
	r.Note("Sharding is off: every node reads every new map, and here all of them share the same cores.")
	r.Note("*All agree*: %d failovers of each kind and size, in turns. From the instant at which a bare watch or the "+
		"first node knew that the leader's "+
		"key is gone, until `GetLeaderNode()` of the last node named the next leader; one goroutine per node waits for "+
		"the node's own signal and "+
		"takes the time. The old leader is not asked. *Floor*: from the first to the last of as many bare watchers, over "+
		"as many connections.", env.pick(failoverSamples, 2))
	r.Note("The leader *stops* by `Stop`: it marks itself as draining, resigns and revokes its lease, which are three " +
		"writes sent to all. When its lease " +
		"is *revoked* out of band, its own requests are held back until all is counted, as those of one that crashed.")
	r.Note("*At etcd*: by its own counters, per failover, until every node has seen all that followed. Bytes are those " +
		"of gRPC's messages. *Observers* " +
		"are all but the next leader, whose campaign looks once more whether it is first, and who queued last; what these " +
		"two sent is subtracted by " +
		"their own count.")
	r.Note("*Crash*: all connections to etcd end and every node with them, nothing is revoked. Each then starts again " +
		"at its address and takes it over " +
		"from its predecessor. *Leases left to run out*: a predecessor's that was not revoked, or one whose grant was " +
		"answered too late, so that the " +
		"node asked for another; with this TTL the benchmark revokes them.")
	r.Note("At the end the nodes stop, one after the other, and the run fails if etcd then keeps a key, a lease or a " +
		"watch, or this process a goroutine.")
	r.Note("*On paper*: from the largest size that was measured. What all do at once grows with the square of the " +
		"nodes, the rest in proportion to them.")
}
