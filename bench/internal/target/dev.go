package target

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

const (
	devGoal   = 3 * time.Second
	devLasts  = 4 * time.Second
	devNodes  = 3
	writeGoal = 10
)

// leaderLine matches a plain line of `goversed dev` that names a leader, for example "0.116s  127.0.0.1:29402
// leads (term 3), the first leader".
var leaderLine = regexp.MustCompile(`^\s*[0-9.]+s\s+\S+:[0-9]+ leads\b`)

// The other patterns match the lines with etcd's address, with all shards served, and at the end:
//
//	etcd at 127.0.0.1:30764, 3 node processes under /goverse with a TTL of 10s
//	 1.173s  all 8192 shards are served, 6.0 ms later
//	 4.001s  4s are over, stopping
var (
	etcdLine     = regexp.MustCompile(`^etcd at (\S+:[0-9]+),`)
	servedLine   = regexp.MustCompile(`^\s*[0-9.]+s\s+all ([0-9]+) shards are served\b`)
	stoppingLine = regexp.MustCompile(`^\s*[0-9.]+s\s.*, stopping$`)
)

// devRun holds the times of the lines that one `goversed dev` printed.
type devRun struct {
	mu                sync.Mutex
	etcd              string
	led, served, even time.Time // even: when all shards were last served before the end
	stopping          bool
}

func (d *devRun) says(line string) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.stopping:
	case stoppingLine.MatchString(line):
		d.stopping = true
	case d.etcd == "" && etcdLine.MatchString(line):
		d.etcd = etcdLine.FindStringSubmatch(line)[1]
	case d.led.IsZero() && leaderLine.MatchString(line):
		d.led = now
	case servedLine.MatchString(line):
		if n, _ := strconv.Atoi(servedLine.FindStringSubmatch(line)[1]); n != shard.DefaultCount {
			return
		}
		if d.even = now; d.served.IsZero() {
			d.served = now
		}
	}
}

// startDev measures `goversed dev` from the start of its process: embedded etcd, three node processes, a
// leader, and the shards.
func startDev(ctx context.Context, env Env, r *report.Result) error {
	g, err := buildGoversed(ctx)
	if err != nil {
		return err
	}
	defer g.remove()
	first, served := sample.Millis("goversed dev: first leader"), sample.Millis("goversed dev: all shards served")
	even := sample.Millis("goversed dev: all shards served, evenly")
	n, writes := env.pick(10, 2), 0
	env.Log("T14: goversed dev, %d times", n)
	for range n {
		started := time.Now()
		run := &devRun{}
		d, err := g.run(run.says, "dev", "--for", devLasts.String())
		if err != nil {
			return err
		}
		rest(ctx, devGoal)
		run.mu.Lock()
		etcd := run.etcd
		run.mu.Unlock()
		wrote, err := dealt(ctx, etcd)
		bound, cancel := context.WithTimeout(ctx, devLasts+30*time.Second)
		err = errors.Join(err, d.wait(bound))
		cancel()
		switch {
		case err != nil:
			return err
		case run.led.IsZero() || run.served.IsZero():
			return errors.New("goversed dev ended, and named no leader or did not say that all shards are served")
		}
		writes = max(writes, wrote)
		first.Add(run.led.Sub(started))
		served.Add(run.served.Sub(started))
		even.Add(run.even.Sub(started))
	}
	for _, row := range []struct {
		what string
		s    *sample.Series
	}{
		{"`goversed dev`, three nodes: first leader", first},
		{fmt.Sprintf("… %d shards served", shard.DefaultCount), served},
		{"… served by three, an even share each", even},
	} {
		r.Row(row.what, fmt.Sprintf("≤ %v", devGoal),
			fmt.Sprintf("p50 %s, max %s of %d", seconds(row.s.Median()), seconds(row.s.Max()), n),
			report.Judge(row.s.Max() <= float64(devGoal.Milliseconds())))
		r.Keep(row.s)
	}
	r.Row("… writes until then: of the map, and reports", fmt.Sprintf("≤ %d", writeGoal), fmt.Sprintf("max %d", writes),
		report.Judge(writes <= writeGoal))
	r.Note("`goversed dev` is timed from the start of its process to its first line that names a leader, and to the "+
		"first and the last that says that all %d shards are served: the first map waits for a window of 1 s in "+
		"which no node joins, and a node that joins later gets its share from a second one. Writes are read from "+
		"etcd, as the versions "+
		"of the map's key and of the reports', %v after the start.", shard.DefaultCount, devGoal)
	return nil
}

// dealt returns the number of writes of the shards' keys since they were created. It returns an error unless
// the shards are assigned evenly to all nodes.
func dealt(ctx context.Context, etcd string) (writes int, err error) {
	if etcd == "" {
		return 0, errors.New("goversed dev did not say where its etcd is")
	}
	clients, closeAll, err := dial(ctx, etcd, 1)
	if err != nil {
		return 0, err
	}
	defer closeAll()
	keys, err := state.NewKeys("/goverse")
	if err != nil {
		return 0, err
	}
	resp, err := clients[0].Get(ctx, keys.Prefix()+"/shards/", clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	even := false
	for _, kv := range resp.Kvs {
		writes += int(kv.Version)
		if string(kv.Key) == keys.ShardMap() {
			m, err := sharding.DecodeMap(kv.Value)
			if err != nil {
				return 0, err
			}
			even = len(m.Loads()) == devNodes && spread(m) <= 1
		}
	}
	if !even {
		return 0, fmt.Errorf("the shards of goversed dev are not assigned evenly after %v", devGoal)
	}
	return writes, nil
}
