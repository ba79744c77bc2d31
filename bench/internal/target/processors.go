package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/clustertest/fault"
)

// These numbers are realistic for a service with its own read model.
const (
	projections = 20
	automations = 5
	// lockCost limits the relative effect of a leader lock on the throughput.
	lockCost = 0.05
)

// processors measures the cost of the leader lock for a processor, and the connections and leases of many
// processors in one process.
func processors(ctx context.Context, env Env, r *report.Result) error {
	return withEtcd(func(p *etcdproc.Process) (err error) {
		if err := together(ctx, p, r); err != nil {
			return err
		}
		c, err := startNode(ctx, cluster.Config{EtcdAddress: p.Endpoint})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stopNode(ctx, c)) }()
		inEtcd := c.Checkpoints()
		pairs, rounds := env.pick(15, 1), env.pick(10, 1)
		for _, arm := range []struct {
			name        string
			n           int
			checkpoints processor.Checkpoint
		}{
			{"one processor, its checkpoint in memory", 1, &processor.Memory{}},
			{"one processor, its checkpoint in etcd", 1, inEtcd},
			{"25 processors, their checkpoints in etcd", projections + automations, inEtcd},
		} {
			env.Log("processors: %s, %d pairs of %v each", arm.name, pairs, time.Duration(2*rounds)*turnTime)
			if err := lockOrNot(ctx, r, lockCosts{arm.name, arm.n, numbers{}, arm.checkpoints,
				func(name string) processor.LeaderLock { return processor.Election(c.Elections(), name) }}, pairs,
				rounds); err != nil {
				return err
			}
		}
		r.Note("Events come from memory, 100 to a batch, and are counted: nothing but the processor itself takes time. "+
			turnsNote, turnTime, 2*rounds)
		return nil
	})
}

const turnsNote = "Both crews of processors, with and without the leader lock, stand all the time and get events in " +
	"turns of %v, %d each for a pair, which of them first by turns as well; the ratio is the median of the pairs' ratios."

// numbers is an infinite source of numbered events that are available at once.
type numbers struct{}

func (numbers) Read(_ context.Context, after processor.Position, limit int) ([]processor.Event[int64], error) {
	var last int64
	if after != "" {
		var err error
		if last, err = strconv.ParseInt(string(after), 10, 64); err != nil {
			return nil, err
		}
	}
	events := make([]processor.Event[int64], limit)
	for i := range events {
		last++
		events[i] = processor.Event[int64]{Position: processor.Position(strconv.FormatInt(last, 10)), Value: last}
	}
	return events, nil
}

// crew is a group of processors in this process that count the events they handle.
type crew struct {
	group   processor.Group
	handled []atomic.Int64
	cancel  context.CancelFunc
	ended   chan error
}

// startCrew starts n processors of one source, named by prefix and a number. Each has the lock returned by
// lockOf, or none if lockOf is nil.
func startCrew(ctx context.Context, prefix string, n int, source processor.Source[int64],
	checkpoints processor.Checkpoint, lockOf func(name string) processor.LeaderLock,
	handle func(ctx context.Context, i int, e processor.Event[int64]) error) (*crew, error) {
	c := &crew{handled: make([]atomic.Int64, n), ended: make(chan error, 1)}
	for i := range n {
		name := fmt.Sprintf("%s processor %d", prefix, i)
		cfg := processor.Config[int64]{Name: name, Source: source, Checkpoint: checkpoints,
			Handler: func(ctx context.Context, e processor.Event[int64]) error {
				c.handled[i].Add(1)
				if handle == nil {
					return nil
				}
				return handle(ctx, i, e)
			}}
		if lockOf != nil {
			cfg.LeaderLock = lockOf(name)
		}
		p, err := processor.New(cfg)
		if err != nil {
			return nil, err
		}
		c.group = append(c.group, p)
	}
	ctx, c.cancel = context.WithCancel(ctx)
	go func() { c.ended <- c.group.Run(ctx) }()
	return c, nil
}

// all returns the number of handled events.
func (c *crew) all() (n int64) {
	for i := range c.handled {
		n += c.handled[i].Load()
	}
	return n
}

// await waits until each processor has handled n events.
func (c *crew) await(ctx context.Context, n int64) error {
	for !slices.ContainsFunc(c.group.Status(), func(s processor.Status) bool { return s.Failures > 0 }) {
		if slices.IndexFunc(c.group.Status(), func(s processor.Status) bool { return s.Handled < n }) < 0 {
			return nil
		}
		rest(ctx, time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("wait until all processors process: %w", context.Cause(ctx))
		}
	}
	return fmt.Errorf("a processor fails: %+v", c.group.Status())
}

func (c *crew) stop() error {
	c.cancel()
	return <-c.ended
}

// turnTime is the duration of a crew's turn.
const turnTime = 50 * time.Millisecond

// turns is a source that gives events to one crew at a time: a read by a crew waits for the crew's lock, which
// is free during its turn.
type turns struct {
	source processor.Source[int64]
	mine   *sync.RWMutex
}

func (t turns) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[int64], error) {
	t.mine.RLock()   // blocks until this crew's turn
	t.mine.RUnlock() //lint:ignore SA2001 it is only waited for
	return t.source.Read(ctx, after, limit)
}

// lockCosts describes n processors of one source, of which the cost of their leader locks is measured.
type lockCosts struct {
	name        string
	n           int
	source      processor.Source[int64]
	checkpoints processor.Checkpoint
	lockOf      func(name string) processor.LeaderLock
}

// lockOrNot compares a crew with leader locks to one without. Both run all the time, but only one of them gets
// events, in short turns, so disturbances of the machine and its disk affect both.
func lockOrNot(ctx context.Context, r *report.Result, of lockCosts, pairs, rounds int) (err error) {
	var crews [2]*crew
	var turn [2]sync.RWMutex
	for i, arm := range []struct {
		prefix string
		lockOf func(name string) processor.LeaderLock
	}{
		{"locked", of.lockOf},
		{"free", nil},
	} {
		crews[i], err = startCrew(ctx, arm.prefix, of.n, turns{of.source, &turn[i]}, of.checkpoints, arm.lockOf, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, crews[i].stop()) }()
		if err := crews[i].await(ctx, 1); err != nil {
			return err
		}
		turn[i].Lock()
		defer turn[i].Unlock()
	}
	var ratios, with, without []float64
	for range pairs {
		var handled [2]int64
		var took [2]time.Duration
		for range rounds {
			for _, i := range []int{0, 1, 1, 0} {
				before, began := crews[i].all(), time.Now()
				turn[i].Unlock()
				rest(ctx, turnTime)
				turn[i].Lock()
				handled[i] += crews[i].all() - before
				took[i] += time.Since(began)
			}
		}
		a, b := float64(handled[0])/took[0].Seconds(), float64(handled[1])/took[1].Seconds()
		with, without, ratios = append(with, a), append(without, b), append(ratios, a/b)
	}
	ratio := median(ratios)
	r.Row(of.name+": throughput with the leader lock, to that without", fmt.Sprintf("within %.0f %%", lockCost*100),
		fmt.Sprintf("%.3f (%d pairs from %.3f to %.3f); %.0f and %.0f events/s", ratio, pairs, slices.Min(ratios),
			slices.Max(ratios), median(with), median(without)),
		report.Judge(ratio >= 1-lockCost && ratio <= 1+lockCost))
	return nil
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// together runs projections and automations in one process, and counts the process's connections to etcd and
// its leases.
func together(ctx context.Context, p *etcdproc.Process, r *report.Result) (err error) {
	relay, err := fault.NewRelay(p.Endpoint)
	if err != nil {
		return err
	}
	defer relay.Close()
	c, err := startNode(ctx, cluster.Config{EtcdAddress: relay.Address()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopNode(ctx, c)) }()
	checkpoints := c.Checkpoints()
	var ran sync.Map
	crew, err := startCrew(ctx, "led", projections+automations, numbers{}, checkpoints,
		func(name string) processor.LeaderLock { return processor.Election(c.Elections(), name) },
		func(ctx context.Context, i int, e processor.Event[int64]) error {
			if i < projections || e.Value%50 != 0 {
				return nil
			}
			_, err := c.Once(ctx, fmt.Sprintf("automation %d/%d", i, e.Value), func(context.Context, int64) ([]byte,
				error) {
				return nil, nil
			})
			ran.Store(i, true)
			return err
		})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.stop()) }()
	if err := crew.await(ctx, 100); err != nil {
		return err
	}
	clients, closeAll, err := dial(ctx, p.Endpoint, 1)
	if err != nil {
		return err
	}
	defer closeAll()
	standing, err := clients[0].Get(ctx, "/goverse/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	leases, keys := map[int64]bool{}, 0
	for _, kv := range standing.Kvs {
		// Marks of effects outlive the process on a lease of their own.
		if kv.Lease != 0 && !strings.HasPrefix(string(kv.Key), "/goverse/work/marks/") {
			leases[kv.Lease] = true
			keys++
		}
	}
	effects := 0
	ran.Range(func(any, any) bool { effects++; return true })
	r.Row(fmt.Sprintf("%d projections and %d automations in one process: connections to etcd", projections, automations),
		"1",
		fmt.Sprint(relay.Connections()), report.Judge(relay.Connections() == 1 && effects == automations))
	r.Row("leases that they stand on", "1", fmt.Sprintf("%d, with %d keys", len(leases), keys),
		report.Judge(len(leases) == 1 && keys > projections+automations))
	return nil
}
