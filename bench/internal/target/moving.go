package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/sharding"
)

const (
	pauseGoal = 50.0   // ms
	doneGoal  = 2000.0 // ms, less the window
	// window is the default stability window.
	window = time.Second
)

// handoffs holds the results of joins or of stops.
type handoffs struct {
	name         string
	pauses, done *sample.Series // of shards; until their owners served all of them
	moved        []int          // by round
	more         int            // number of pauses beyond the shards that moved
}

func newHandoffs(name string) *handoffs {
	return &handoffs{name: name, pauses: sample.Millis(name + ": pause of a shard"), done: sample.Millis(name +
		": until done")}
}

func (h *handoffs) add(took time.Duration, pauses []time.Duration, moved int) {
	h.done.Add(took)
	for _, d := range pauses {
		h.pauses.Add(d)
	}
	h.moved = append(h.moved, moved)
	h.more += len(pauses) - moved
}

// couple is a cluster of two or three nodes.
type couple struct {
	cfg     cluster.Config
	nodes   []*cluster.Cluster // oldest first; that one leads
	sampler *sampler
	bare    *watchers

	join, stop, stopLead *handoffs
	floor                *sample.Series
}

// moving repeatedly adds a third node to two, and stops one of the three.
func moving(ctx context.Context, env Env, r *report.Result) error {
	c := &couple{sampler: newSampler(shard.DefaultCount), join: newHandoffs("a third node joins two"),
		stop:     newHandoffs("a follower of three stops"),
		stopLead: newHandoffs("the leader of three stops"), floor: sample.Millis("a put as long as the map sent to three " +
			"bare watchers")}
	cycles := env.pick(40, 4)
	if err := withEtcd(func(p *etcdproc.Process) error { return c.run(ctx, env, p, cycles) }); err != nil {
		return err
	}
	c.report(r)
	return nil
}

func (c *couple) run(ctx context.Context, env Env, p *etcdproc.Process, cycles int) (err error) {
	clients, closeAll, err := dial(ctx, p.Endpoint, 3)
	if err != nil {
		return err
	}
	defer closeAll()
	if c.bare, err = watch(ctx, clients, "/floor/", 3); err != nil {
		return err
	}
	defer c.bare.close()
	c.cfg = cluster.Config{EtcdAddress: p.Endpoint, Sharding: cluster.Sharding{MovesPerMinute: plenty}}
	defer func() {
		for _, n := range c.nodes {
			err = errors.Join(err, stopNode(ctx, n))
		}
	}()
	c.sampler.start(ctx)
	defer c.sampler.close()
	for range 2 {
		if err := c.add(ctx); err != nil {
			return err
		}
	}
	if _, err := c.settle(ctx); err != nil {
		return err
	}
	env.Log("T11p: %d times a third node joins, and one stops", cycles)
	for i := range cycles {
		if err := c.comes(ctx); err != nil {
			return fmt.Errorf("a third node joins: %w", err)
		}
		out, at := c.stop, 1+i/2%2 // the older and the newer follower in turns
		if i%2 == 1 {
			out, at = c.stopLead, 0
		}
		if err := c.goes(ctx, out, at); err != nil {
			return fmt.Errorf("%s: %w", out.name, err)
		}
	}
	return nil
}

func (c *couple) add(ctx context.Context) error {
	n, err := startNode(ctx, c.cfg)
	if err != nil {
		return err
	}
	c.nodes = append(c.nodes, n)
	c.sampler.follow(n.Shards())
	return nil
}

func (c *couple) comes(ctx context.Context) error {
	before := c.shards()
	took, err := c.bare.putForAll(ctx, string(before.Encode()))
	if err != nil {
		return err
	}
	c.floor.Add(took)
	rest(ctx, pause)
	started := time.Now()
	if err := c.add(ctx); err != nil {
		return err
	}
	pauses, err := c.settle(ctx)
	if err != nil {
		return err
	}
	c.join.add(time.Since(started), pauses, moved(before, c.shards()))
	return nil
}

func (c *couple) goes(ctx context.Context, out *handoffs, at int) error {
	old, before := c.nodes[at], c.shards()
	if old.IsLeader() != (at == 0) {
		return errors.New("another one leads than the oldest")
	}
	gone := old.Shards()
	rest(ctx, pause)
	c.nodes = slices.Delete(slices.Clone(c.nodes), at, at+1)
	started := time.Now()
	if err := stopNode(ctx, old); err != nil {
		return err
	}
	pauses, err := c.settle(ctx)
	if err != nil {
		return err
	}
	out.add(time.Since(started), pauses, moved(before, c.shards()))
	c.sampler.forget(gone)
	return nil
}

func (c *couple) shards() *sharding.Map { return inspect.Snapshot(c.nodes[0]).ShardMap.Map }

// settle waits until the owner of every shard serves it, the nodes own even shares, and all of them see that.
// It returns the pauses until then.
func (c *couple) settle(ctx context.Context) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	return c.sampler.await(ctx, c.even)
}

// even returns each shard's owner, and false if the nodes do not agree or their shares are uneven.
func (c *couple) even() (owners []server, ok bool) {
	var written int64
	of := map[sharding.Owner]server{}
	for _, n := range c.nodes {
		snap, address := inspect.Snapshot(n), n.Status().NodeID
		own := snap.Member(address)
		if own == nil || snap.ShardMap == nil || len(snap.Members) != len(c.nodes) || written != 0 &&
			snap.ShardMap.ModRevision != written {
			return nil, false
		}
		written = snap.ShardMap.ModRevision
		of[sharding.Owner{Address: own.Address, Incarnation: own.Incarnation}] = n.Shards()
	}
	m := c.shards()
	if len(m.Loads()) != len(c.nodes) || spread(m) > 1 {
		return nil, false
	}
	for shard := range m.Shards() {
		owner, _ := m.Owner(shard)
		if of[owner] == nil {
			return nil, false
		}
		owners = append(owners, of[owner])
	}
	return owners, true
}

func (c *couple) report(r *report.Result) {
	for _, h := range []*handoffs{c.join, c.stop, c.stopLead} {
		n := len(h.moved)
		r.Row(h.name+": pause of a shard that moves, p99", fmt.Sprintf("≤ %.0f ms", pauseGoal),
			fmt.Sprintf("%s of %d; p50 %s, max %s", ms(h.pauses.P(0.99)), len(h.pauses.Values),
				ms(h.pauses.Median()), ms(h.pauses.Max())), report.Judge(h.pauses.P(0.99) <= pauseGoal))
		least, most := slices.Min(h.moved), slices.Max(h.moved)
		r.Row("… shards that moved", "2730 or 2731", fmt.Sprintf("%d to %d; %d pauses more than that", least, most, h.more),
			report.Judge(least >= 2730 && most <= 2731 && h.more == 0))
		if h == c.join {
			rest := h.done.Max() - millis(window)
			r.Row("… until done, less the window", fmt.Sprintf("≤ %.0f s", doneGoal/1000), fmt.Sprintf("p50 %s, max %s of %d",
				ms(h.done.Median()-millis(window)), ms(rest), n),
				report.Judge(rest <= doneGoal))
		} else {
			r.Row("… until done", fmt.Sprintf("≤ %.0f s", doneGoal/1000), fmt.Sprintf("p50 %s, max %s of %d",
				ms(h.done.Median()), ms(h.done.Max()), n),
				report.Judge(h.done.Max() <= doneGoal))
		}
		r.Keep(h.pauses, h.done)
	}
	r.Row("shards that two nodes served at once", "0", fmt.Sprint(c.sampler.twice), report.Judge(c.sampler.twice == 0))
	r.Row(c.floor.Name, "", p50p99(c.floor.Median(), c.floor.P(0.99)), report.Context)
	r.Keep(c.floor)
	r.Plots = append(r.Plots, report.Plot{Name: "T11p", Title: "Pause of a shard that moves",
		Series: []*sample.Series{c.join.pauses, c.stop.pauses, c.stopLead.pauses, c.floor}})
	s := c.sampler
	r.Note("Two nodes in this process over one etcd, and a third one that joins; then one of the three stops, the "+
		"leader every other time. %d shards, default settings but "+
		"for the budget of moves, which is raised: nodes come and go without end here. Nothing runs in the shards, and "+
		"nothing is done when one is acquired.", shard.DefaultCount)
	r.Note("All nodes are asked about all shards, with `Serves`, every %v: that is the load under which they move. A "+
		"pause is from just before the last yes of the one "+
		"until after the first yes of the other, so it is measured too long, by two looks at most. Looks began "+
		"%s apart (p99 %s, max %s) and took %s (p99 %s).", looking,
		ms(s.apart.Median()), ms(s.apart.P(0.99)), ms(s.apart.Max()), ms(s.took.Median()), ms(s.took.P(0.99)))
	r.Note("*Until done*: from the call of `node.NewNode`, or of `Stop`, until every shard is served by its "+
		"owner, evenly, and `Stop` has returned. A join waits for the window "+
		"of %v, a stop does not.", window)
}
