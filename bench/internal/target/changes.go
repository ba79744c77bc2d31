package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

const (
	// plenty is a budget for moves that no benchmark uses up. Nodes come and go more often here than in
	// practice.
	plenty = 1 << 30
	// straggling is the time for which writes are still counted after all shards are served. It is longer than
	// the longest pause between two reports.
	straggling = 300 * time.Millisecond
	// changeTimeout limits one change, including the counting.
	changeTimeout = time.Minute
	// fanSamples is the number of samples of the floor.
	fanSamples = 30
)

// change holds the measurements of one kind of change of the members.
type change struct {
	name string
	// maps limits the maps that follow from one change.
	maps int
	// leaves reports that the node which loses shards ends right after, so its report is not awaited.
	leaves bool
	// These hold an entry for each change: the writes of the shards' keys that a bare watch saw, and the fewest
	// moves possible.
	seen           []dealings
	fewest         []int
	served         *sample.Series // from the call until all shards are served
	counted, bared []etcdproc.Tally
}

// changes holds all kinds of changes of a cluster of one size.
type changes struct {
	nodes                                       int
	bootstrap, alone, join, stop, stopLead, die *change
	dieLead                                     *change
	floor                                       *sample.Series
}

func newChanges(nodes int) *changes {
	named := func(name string, maps int) *change {
		name = fmt.Sprintf("%d nodes: %s", nodes, name)
		return &change{name: name, maps: maps, served: sample.Millis(name)}
	}
	c := &changes{nodes: nodes,
		bootstrap: named("all start, the first map waits for all", 1),
		alone:     named("all start, with default settings", 2),
		join:      named("one joins", 1),
		stop:      named("one stops", 1), stopLead: named("the leader stops", 1),
		die: named("one is killed", 1), dieLead: named("the leader is killed", 1),
		floor: sample.Millis(fmt.Sprintf("%d nodes: a put as long as the map sent to as many bare watchers", nodes))}
	c.stop.leaves, c.stopLead.leaves = true, true
	return c
}

func (c *changes) all() []*change {
	return []*change{c.bootstrap, c.alone, c.join, c.stop, c.stopLead, c.die, c.dieLead}
}

// testbed is a fleet with changing members and a bare watch of the keys of the shards.
type testbed struct {
	process *etcdproc.Process
	client  *clientv3.Client
	keys    state.Keys
	fleet   *fleet.Fleet
	lookout *fleet.Lookout // nil if sharding is off
	shards  *sharding.Map  // the map before the next change
}

// run makes all changes, with shards and with sharding off; the difference is the cost of the shards. It starts
// each kind of cluster `starts` times, and makes the other changes in one cluster of each kind.
func (c *changes) run(ctx context.Context, env Env, starts, rounds int) error {
	for i := range starts {
		for _, arm := range []struct {
			sharding cluster.Sharding
			first    *change
			lives    bool
		}{
			{cluster.Sharding{MinMembers: c.nodes, MovesPerMinute: plenty}, c.bootstrap, i == 0},
			{cluster.Sharding{}, c.alone, false},
			{cluster.Sharding{Off: true}, c.alone, i == 0},
		} {
			rounds := rounds
			if !arm.lives {
				rounds = 0
			}
			env.Log("T10: %s; then %d rounds of changes, sharding off: %v", arm.first.name, rounds, arm.sharding.Off)
			if err := withEtcd(func(p *etcdproc.Process) error {
				gone := fleet.Goroutines()
				if err := c.live(ctx, p, arm.sharding, arm.first, rounds); err != nil {
					return err
				}
				return gone()
			}); err != nil {
				return err
			}
		}
	}
	c.bootstrap.bared = c.alone.bared // without shards there is no map to wait for
	return nil
}

// live starts a fleet, which is the change first, makes rounds of the other changes, stops the fleet, and
// checks that nothing is left.
func (c *changes) live(ctx context.Context, p *etcdproc.Process, s cluster.Sharding, first *change, rounds int) error {
	own, err := fleet.Connect(ctx, p.Endpoint, 2)
	if err != nil {
		return err
	}
	defer fleet.Disconnect(own)
	t := &testbed{process: p, client: own[0]}
	if t.keys, err = state.NewKeys("/goverse"); err != nil {
		return err
	}
	if !s.Off {
		if t.lookout, err = fleet.Watch(ctx, own[1], t.keys.Prefix()+"/shards/"); err != nil {
			return err
		}
		defer t.lookout.Close()
	}
	if t.fleet, err = fleet.New(ctx, p.Endpoint, c.nodes, scaleConfig(s)); err != nil {
		return err
	}
	err = t.make(ctx, first, func() error { return t.fleet.Start(ctx) })
	if err == nil && rounds > 0 {
		err = c.rounds(ctx, t, rounds)
	}
	if err != nil { // report only this error: etcd ends next
		_ = t.fleet.Crash()
		_ = t.fleet.Stop(ctx)
		return err
	}
	if err := t.fleet.Stop(ctx); err != nil {
		return err
	}
	if !s.Off {
		t.lookout.Close()
		if _, err := t.client.Delete(ctx, t.keys.ShardMap()); err != nil { // the only key that is meant to stay
			return err
		}
	}
	patient, cancel := context.WithTimeout(ctx, leftPatience)
	defer cancel()
	return fleet.NothingAtEtcd(patient, p, t.client)
}

// rounds makes the other changes n times. If there are shards, it measures the floor first.
func (c *changes) rounds(ctx context.Context, t *testbed, n int) error {
	if t.shards != nil {
		if err := c.fan(ctx, t); err != nil {
			return err
		}
	}
	stop := func(n *fleet.Node) (func() error, error) { return func() error { return nil }, n.Stop(ctx) }
	kill := func(n *fleet.Node) (func() error, error) { return t.fleet.Kill(ctx, n) }
	for range n {
		for _, step := range []struct {
			out   *change
			leads bool
			end   func(*fleet.Node) (join func() error, err error)
		}{
			{c.stop, false, stop}, {c.stopLead, true, stop}, {c.die, false, kill}, {c.dieLead, true, kill},
		} {
			i := slices.IndexFunc(t.fleet.Nodes, func(n *fleet.Node) bool { return (n == t.fleet.Leader()) == step.leads })
			if i < 0 {
				return errors.New("none of the nodes leads")
			}
			if err := c.replace(ctx, t, step.out, t.fleet.Nodes[i], step.end); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace ends one node, which is one change, and adds another one, which is the next.
func (c *changes) replace(ctx context.Context, t *testbed, out *change, old *fleet.Node,
	end func(*fleet.Node) (func() error, error)) error {
	var join func() error
	if err := t.make(ctx, out, func() (err error) {
		join, err = end(old)
		t.fleet.Remove(old)
		return err
	}); err != nil {
		return err
	}
	if err := join(); err != nil {
		return err
	}
	return t.make(ctx, c.join, func() error {
		_, err := t.fleet.Add(ctx)
		return err
	})
}

// make makes one change. It counts until all shards are served again, or, with sharding off, until all nodes
// agree, and for the time straggling after that.
func (t *testbed) make(ctx context.Context, c *change, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	rest(ctx, settle)
	if t.lookout != nil {
		t.lookout.Forget()
	}
	var took time.Duration
	var now *sharding.Map
	tally, err := t.process.Tally(ctx, func() (err error) {
		started := time.Now()
		if err := do(); err != nil {
			return err
		}
		if err := t.fleet.AwaitAgreement(ctx); err != nil {
			return err
		}
		if t.lookout != nil {
			if now, err = t.fleet.AwaitServed(ctx); err != nil {
				return err
			}
			took = time.Since(started)
		}
		rest(ctx, straggling)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if t.lookout == nil {
		c.bared = append(c.bared, tally)
		return nil
	}
	events, err := t.lookout.Seen(ctx)
	if err != nil {
		return err
	}
	d, err := readDealings(t.keys, t.shards, events)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	var takers []sharding.Owner
	for _, m := range inspect.Snapshot(t.fleet.Nodes[0].Cluster).Members {
		takers = append(takers, sharding.Owner{Address: m.Address, Incarnation: m.Incarnation})
	}
	c.seen = append(c.seen, d)
	c.fewest = append(c.fewest, fewest(t.shards, now.Shards(), takers))
	c.counted = append(c.counted, tally)
	c.served.Add(took)
	t.shards = now
	return nil
}

// fan measures the floor: the time from a bare client's put of a value as long as the map until as many bare
// watchers as there are nodes have received it.
func (c *changes) fan(ctx context.Context, t *testbed) error {
	clients, closeAll, err := dial(ctx, t.process.Endpoint, fleet.Connections(c.nodes))
	if err != nil {
		return err
	}
	defer closeAll()
	w, err := watch(ctx, clients, "/floor/", c.nodes)
	if err != nil {
		return err
	}
	defer w.close()
	value := string(t.shards.Encode())
	for i := range fanSamples + warmUp {
		rest(ctx, pause)
		d, err := w.putForAll(ctx, value)
		if err != nil {
			return err
		}
		if i >= warmUp {
			c.floor.Add(d)
		}
	}
	_, err = t.client.Delete(ctx, w.prefix+"key")
	return err
}
