package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding"
)

// bereft holds the results of kills of one kind of owner. The phases follow each other.
type bereft struct {
	name                                string
	served, removed, dealt, taken, late *sample.Series
}

func newBereft(who string) *bereft {
	return &bereft{name: who + " is killed", served: sample.Millis(who +
		" was killed: all served"), removed: sample.Millis(who + " was killed: removed"),
		dealt: sample.Millis(who + " was killed: from then until the next map"), taken: sample.Millis(who +
			" was killed: from then until all served"),
		late: sample.Millis(who + " was killed: may have been served before")}
}

// orphans is a trio of nodes with kills of shard owners.
type orphans struct {
	crashes
	lookout          *fleet.Lookout
	bare             *watchers
	shards           *sharding.Map // the map before a kill
	leader, follower *bereft
	floor            *sample.Series

	maps            int // the largest number written after a kill
	moved, orphaned int // numbers of shards: moved by those maps, and owned by the killed nodes
	expired         int // leases
	hurt            injuries
}

func newOrphans(env Env) *orphans {
	return &orphans{crashes: crashes{name: "T12", env: env}, leader: newBereft("the leader"),
		follower: newBereft("a follower"),
		floor:    sample.Millis("a put as long as the map sent to two bare watchers")}
}

// part is the relevant part of a node's answer about the shards.
type part struct {
	Held       httpapi.Held `json:"held"`
	Generation int64        `json:"generation"`
	OpenMoves  int          `json:"open_moves"`
}

// run kills n owners, the leader and a follower in turns.
func (o *orphans) run(ctx context.Context, p *etcdproc.Process, n int) error {
	clients, closeAll, err := dial(ctx, p.Endpoint, 3)
	if err != nil {
		return err
	}
	defer closeAll()
	if o.lookout, err = fleet.Watch(ctx, clients[0], o.witness.keys.Prefix()+"/shards/"); err != nil {
		return err
	}
	defer o.lookout.Close()
	if o.bare, err = watch(ctx, clients[1:], "/floor/", trioSize-1); err != nil {
		return err
	}
	defer o.bare.close()
	before, err := o.plant(ctx)
	if err != nil {
		return err
	}
	for i := range n {
		a, place := o.leader, 0
		if i%2 == 1 {
			a, place = o.follower, 1+rand.IntN(trioSize-1)
		}
		if err := o.kill(ctx, a, place); err != nil {
			return err
		}
	}
	_, err = o.even(ctx)
	o.hurt = o.witness.living().since(before)
	o.harmed = o.hurt != injuries{}
	return err
}

// even waits until all three nodes run and each serves its share. It returns them in the order of the queue.
func (o *orphans) even(ctx context.Context) ([]*member, error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		queue, err := o.trio.settled(ctx)
		if err == nil {
			err = o.uneven(ctx)
		}
		if err == nil {
			return queue, nil
		}
		rest(ctx, pause)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the shards are not served by three within %v: %w", settling, err)
		}
	}
}

func (o *orphans) uneven(ctx context.Context) error {
	all := 0
	for _, m := range o.trio.members {
		var p part
		if err := m.ask(ctx, "/cluster/shards", &p); err != nil {
			return err
		}
		if p.OpenMoves > 0 || p.Held.Serving < shard.DefaultCount/trioSize || p.Held.Serving > shard.DefaultCount/trioSize+1 {
			return fmt.Errorf("%s shows %+v", m.address, p)
		}
		all += int(p.Held.Serving)
	}
	if all != shard.DefaultCount {
		return fmt.Errorf("%d shards are served", all)
	}
	return nil
}

// kill runs one round: it kills the node at the given place in the queue.
func (o *orphans) kill(ctx context.Context, a *bereft, place int) error {
	if _, err := o.even(ctx); err != nil {
		return err
	}
	if err := o.measureFloor(ctx); err != nil {
		return err
	}
	rest(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond))
	queue, err := o.even(ctx)
	if err != nil {
		return err
	}
	old := queue[place]
	var survivors []*member
	for _, m := range queue {
		if m != old {
			survivors = append(survivors, m)
		}
	}
	victim, err := o.witness.killing(old.address)
	if err != nil {
		return err
	}
	o.lookout.Forget()
	started := time.Now()
	old.daemon.kill()
	dealt, last, late, err := o.rescue(ctx, victim, survivors)
	if err != nil {
		return err
	}
	accused, removed, err := o.witness.removal(ctx, victim)
	if err != nil {
		return err
	}
	if accused.IsZero() {
		o.expired++
	}
	a.served.Add(last.Sub(started))
	a.removed.Add(removed.Sub(started))
	a.dealt.Add(dealt.Sub(removed))
	a.taken.Add(last.Sub(dealt))
	a.late.Add(late)
	o.trio.bury(ctx, old)
	if err := o.count(ctx, victim); err != nil {
		return err
	}
	return o.trio.start(old)
}

// rescue waits until the survivors serve the shards that the next map assigns to them. It returns the time at
// which the bare watch showed that map, the time of the last survivor's confirmation, and how much earlier that
// survivor may already have served all of its shards.
func (o *orphans) rescue(ctx context.Context, victim *life,
	survivors []*member) (dealt, last time.Time, late time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	gone := sharding.Owner{Address: victim.address, Incarnation: victim.incarnation}
	var next *sharding.Map
	event, err := o.lookout.Await(ctx, func(e *clientv3.Event) bool {
		if e.Type != clientv3.EventTypePut || string(e.Kv.Key) != o.witness.keys.ShardMap() {
			return false
		}
		m, err := sharding.DecodeMap(e.Kv.Value)
		if err != nil || owned(m, gone) > 0 {
			return false
		}
		next = m
		return true
	})
	if err != nil {
		return dealt, last, late, fmt.Errorf("wait for a map without %s: %w", gone.Address, err)
	}
	type answer struct {
		at   time.Time
		late time.Duration
		err  error
	}
	answers := make(chan answer)
	for _, m := range survivors {
		go func() { // received below
			at, late, err := m.awaitServing(ctx, next, event.At)
			answers <- answer{at, late, err}
		}()
	}
	var errs []error
	for range survivors {
		got := <-answers
		errs = append(errs, got.err)
		if got.at.After(last) {
			last, late = got.at, got.late
		}
	}
	return event.At, last, late, errors.Join(errs...)
}

// awaitServing polls m until it serves all shards that next assigns to it. It returns the time of the
// confirmation, and how much earlier it may already have been true. It was not true at the time since.
func (m *member) awaitServing(ctx context.Context, next *sharding.Map,
	since time.Time) (at time.Time, late time.Duration, err error) {
	wanted := 0
	for _, l := range next.Loads() {
		if l.Owner.Address == m.address {
			wanted = l.Shards
		}
	}
	no := since
	for {
		sent := time.Now()
		var p part
		if err := m.ask(ctx, "/cluster/shards", &p); err != nil {
			return at, late, fmt.Errorf("ask %s what it serves: %w", m.address, err)
		}
		if p.Generation >= next.Generation() && p.Held.Serving >= int64(wanted) {
			at = time.Now()
			return at, at.Sub(no), nil
		}
		no = sent
	}
}

func owned(m *sharding.Map, by sharding.Owner) int {
	for _, l := range m.Loads() {
		if l.Owner == by {
			return l.Shards
		}
	}
	return 0
}

// count evaluates the writes since the kill.
func (o *orphans) count(ctx context.Context, victim *life) error {
	events, err := o.lookout.Seen(ctx)
	if err != nil {
		return err
	}
	d, err := readDealings(o.witness.keys, o.shards, events)
	if err != nil {
		return err
	}
	o.maps = max(o.maps, d.maps)
	o.moved += d.moved
	o.orphaned += owned(o.shards, sharding.Owner{Address: victim.address, Incarnation: victim.incarnation})
	return nil
}

// measureFloor takes one sample of the floor and records the map before a kill.
func (o *orphans) measureFloor(ctx context.Context) error {
	resp, err := o.client.Get(ctx, o.witness.keys.ShardMap())
	if err != nil {
		return err
	}
	if o.shards, err = sharding.DecodeMap(resp.Kvs[0].Value); err != nil {
		return err
	}
	rest(ctx, pause)
	took, err := o.bare.putForAll(ctx, string(resp.Kvs[0].Value))
	o.floor.Add(took)
	return err
}
