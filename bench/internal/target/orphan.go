package target

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster/shard"
)

const orphanedGoal = 300.0 // ms

// orphan kills the processes of shard owners, leaders and followers in turns.
func orphan(ctx context.Context, env Env, r *report.Result) error {
	g, err := buildGoversed(ctx)
	if err != nil {
		return err
	}
	defer g.remove()
	kills := env.pick(120, 6)
	return withEtcd(func(p *etcdproc.Process) error {
		o := newOrphans(env)
		env.Log("T12: %d owners are killed", kills)
		if err := o.with(ctx, g, p, func() error { return o.run(ctx, p, kills) }); err != nil {
			return err
		}
		o.report(r)
		return nil
	})
}

func (o *orphans) report(r *report.Result) {
	all := sample.Millis("all")
	var late []*sample.Series
	for _, a := range []*bereft{o.leader, o.follower} {
		all.Values = append(all.Values, a.served.Values...)
		late = append(late, a.late)
	}
	wanted := fmt.Sprintf("≤ %.0f ms", orphanedGoal)
	r.Row("shards of a killed owner served again, p50", wanted, fmt.Sprintf("%s of %d kills; p99 %s, max %s",
		ms(all.Median()), len(all.Values), ms(all.P(0.99)), ms(all.Max())),
		report.Judge(all.Median() <= orphanedGoal))
	for _, a := range []*bereft{o.leader, o.follower} {
		r.Row(a.name+", p50", wanted, fmt.Sprintf("%s of %d kills; p99 %s, max %s", ms(a.served.Median()),
			len(a.served.Values), ms(a.served.P(0.99)), ms(a.served.Max())),
			report.Judge(a.served.Median() <= orphanedGoal))
		r.Row("… until its keys were removed", "", p50p99(a.removed.Median(), a.removed.P(0.99)), report.Context)
		r.Row("… from then until the next map stood in etcd", "", p50p99(a.dealt.Median(), a.dealt.P(0.99)), report.Context)
		r.Row("… from then until all were served", "", p50p99(a.taken.Median(), a.taken.P(0.99)), report.Context)
		r.Keep(a.served, a.removed, a.dealt, a.taken, a.late)
	}
	r.Row("maps written after a kill", "1", fmt.Sprintf("max %d", o.maps), report.Judge(o.maps == 1))
	r.Row("shards that moved and were not the killed one's", "0", fmt.Sprintf("%d of %d", o.moved-o.orphaned, o.moved),
		report.Judge(o.moved == o.orphaned))
	r.Row("living members removed", "0", fmt.Sprintf("%d; %d leases ran out", o.hurt.removed, o.expired),
		report.Judge(o.hurt.removed == 0))
	r.Row(o.floor.Name, "", p50p99(o.floor.Median(), o.floor.P(0.99)), report.Context)
	r.Keep(o.floor)
	r.Plots = append(r.Plots, report.Plot{Name: "T12",
		Title:  "Time from SIGKILL of an owner until all its shards are served again",
		Series: []*sample.Series{o.leader.served, o.follower.served, o.follower.removed, o.floor}})
	r.Note("Three `goversed node` processes with default flags (TTL 10 s, %d shards) beside one etcd. One gets "+
		"SIGKILL, the leader and one that follows in turns; "+
		"then it is started again at the same address, and the next round begins when all three are queued, agree, watch "+
		"each other and serve an even share, after 50 "+
		"to 150 ms more. The time is from just before the signal until both survivors have said that they serve all that "+
		"the next map gives them.", shard.DefaultCount)
	r.Note("A bare watch shows the next map; from then on both survivors are asked for `/cluster/shards` over kept "+
		"connections, again as soon as they have answered. "+
		"Answering takes a survivor a moment of its processor, and it may have served that much sooner than it said: p50 "+
		"%s, max %s after a leader was killed, p50 %s, "+
		"max %s after a follower. That is not "+
		"subtracted.", ms(late[0].Median()), ms(late[0].Max()), ms(late[1].Median()), ms(late[1].Max()))
	r.Note("The original Goverse, three nodes with 8192 shards and its defaults, is on record with 20 s until the " +
		"shards of a killed leader were owned again; that was not measured here.")
}
