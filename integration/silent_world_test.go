//go:build linux

package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/integration/internal/hosts"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/pace"
)

var (
	silentRounds = flag.Int("silent.rounds", 1, "how often each fault silences a leader; 100 in the full run")
	silentTTLs   = flag.String("silent.ttl", "10",
		"TTLs of the sessions in seconds, separated by commas; 10,30 in the full run")
	silentTimeout = flag.Duration("silent.timeout", 0,
		"CrashDetection.SilenceTimeout of the nodes, by which the time to the next leader is judged; 0 is the default, "+
			"-1ns none, so that it is judged by the TTL")
)

// silentPhase limits the random time before a fault, so that it meets every phase of the renewals and heartbeats.
const silentPhase = 3500 * time.Millisecond

// silentPlace is an etcd, and the network for hosts, if there is one.
type silentPlace struct {
	etcd    *procs.Members
	network *hosts.Network // nil without hosts
	// hosts are those of etcd's members, each for a node as well; nil if no fault of a node affects a member.
	hosts []*hosts.Host
}

func newSilentPlace(t *testing.T) *silentPlace {
	t.Helper()
	flavour := procs.Flavours()[0]
	if !hosts.Inside() {
		return &silentPlace{etcd: kit.StartMembers(t, flavour, 3, 0)}
	}
	network := hosts.New(t)
	outside := procs.Place{IP: network.Address}
	return &silentPlace{etcd: kit.StartMembersAt(t, flavour, outside, outside, outside), network: network}
}

// withMembers returns a place in the same network with another etcd, whose members are on hosts.
func (p *silentPlace) withMembers(t *testing.T) *silentPlace {
	t.Helper()
	out := &silentPlace{network: p.network}
	var places []procs.Place
	for range 3 {
		h := p.network.NewHost(t)
		out.hosts = append(out.hosts, h)
		places = append(places, procs.Place{IP: h.Address, Command: h.Command})
	}
	out.etcd = kit.StartMembersAt(t, procs.Flavours()[0], places...)
	return out
}

// resetMembers ends what is left of the connections between members of etcd on hosts. Some that were cut for seconds
// take up messages for a minute that never arrive: then etcd itself is without a leader after the next cut.
func (p *silentPlace) resetMembers(t *testing.T) {
	t.Helper()
	var ports []string
	for _, peer := range p.etcd.Peers() {
		_, port, err := net.SplitHostPort(peer)
		require.NoError(t, err)
		ports = append(ports, port)
	}
	for _, h := range p.hosts {
		h.ResetConnections(ports...)
	}
}

// hostOf returns the host of a member of etcd for a node, or nil if it has to have one of its own.
func (p *silentPlace) hostOf(node int) *hosts.Host {
	if p.hosts == nil {
		return nil
	}
	return p.hosts[node]
}

// silentCluster is a cluster whose nodes record their claims. The test records its faults and what etcd says.
type silentCluster struct {
	*testing.T
	etcd  *procs.Members
	cfg   silentConfig // of all nodes
	keys  state.Keys
	dir   string
	nodes []*silentNode
	meter *pace.Meter

	record *os.File
	rec    *history.Recorder
	ended  context.CancelFunc
	wg     sync.WaitGroup
	rounds []*silentRound
	over   history.Instant // when the nodes were stopped

	mu      sync.Mutex
	err     error // the first one of the goroutines
	removed []removedKey
}

// silentNode is one node of a cluster.
type silentNode struct {
	*procs.Node
	silentConfig
	host *hosts.Host // nil without hosts
}

// removedKey is a key that was deleted in etcd.
type removedKey struct {
	key, value string
	revision   int64
	at         history.Instant
}

// silentRound is one fault at a leader.
type silentRound struct {
	victim   *silentNode
	token    int64
	at       history.Instant
	healed   history.Instant
	slowdown float64 // of the machine, from the fault on until it was healed
	heal     func()  // records the end of the fault
	back     time.Duration
	stop     time.Duration   // of a victim that continued by itself
	thaws    history.Instant // just before it was continued
	elected  history.Instant // when etcd had another leader, if it lost its own
	replaced bool            // another node led before the next round
	next     history.Instant // when it first claimed to
}

// startSilentCluster starts a cluster of n nodes, each on a host of its own if the place has hosts, and waits until all
// of them own shards. change changes the configuration of all nodes.
func startSilentCluster(t *testing.T, p *silentPlace, name string, n int, change func(*silentConfig)) *silentCluster {
	t.Helper()
	c := newSilentCluster(t, p, name, change)
	for i := range n {
		c.startNode(p, fmt.Sprint("node", i))
	}
	c.awaitRest()
	return c
}

// newSilentCluster returns a cluster without nodes.
func newSilentCluster(t *testing.T, p *silentPlace, name string, change func(*silentConfig)) *silentCluster {
	t.Helper()
	c := &silentCluster{T: t, etcd: p.etcd, dir: t.TempDir(), meter: pace.StartMeter(t)}
	c.cfg = silentConfig{Etcd: strings.Join(p.etcd.Endpoints, ","), Prefix: "/silent-" + name, TTL: 10,
		Silence: *silentTimeout}
	change(&c.cfg)
	var err error
	c.keys, err = state.NewKeys(c.cfg.Prefix)
	require.NoError(t, err)
	c.record, err = os.Create(filepath.Join(c.dir, "test.jsonl"))
	require.NoError(t, err)
	c.rec = history.NewRecorder(c.record, "test")
	c.observe()
	return c
}

// startNode starts one node, without waiting for it.
func (c *silentCluster) startNode(p *silentPlace, name string) {
	c.Helper()
	n := &silentNode{silentConfig: c.cfg}
	n.Name, n.Record, n.Calls = name, filepath.Join(c.dir, name+".jsonl"), filepath.Join(c.dir, name+".calls")
	path, err := os.Executable()
	require.NoError(c, err)
	var args []string
	if p.network == nil {
		addresses := kit.Addresses(c, 2)
		n.Advertise, n.HTTP = addresses[0], addresses[1]
	} else {
		if n.host = p.hostOf(len(c.nodes)); n.host == nil {
			n.host = p.network.NewHost(c)
		}
		n.Advertise, n.HTTP = n.host.Address+":47001", n.host.Address+":48001"
		path, args = n.host.Command(path, args)
	}
	process := kit.Start(c, name, path, args, []string{silentEnv + "=" + n.encode(c)})
	n.Node = kit.NodeAt(c, process, n.Advertise, n.HTTP)
	c.nodes = append(c.nodes, n)
}

// observe records the register's history, and the deleted keys of nodes and candidates, until judge or the end of the
// test.
func (c *silentCluster) observe() {
	ctx, cancel := context.WithCancel(context.Background())
	c.ended = cancel
	client := c.etcd.Client(1)
	c.Cleanup(func() {
		c.ended()
		c.wg.Wait()
		_ = c.rec.Stop()
		_ = c.record.Close()
	})
	at, err := client.Get(requestContext(c.T), "revision")
	require.NoError(c, err)
	from := at.Header.Revision + 1
	run := func(what func() error) {
		c.wg.Go(func() {
			if err := what(); err != nil {
				c.mu.Lock()
				c.err = errors.Join(c.err, err)
				c.mu.Unlock()
			}
		})
	}
	run(func() error { return c.rec.Register("test", client, c.cfg.register()).Follow(ctx, from) })
	for i := range c.etcd.Endpoints { // some may be cut off
		for _, prefix := range []string{c.keys.Queue(), c.keys.Nodes()} {
			deleted := c.etcd.Client(i).Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from),
				clientv3.WithPrevKV(), clientv3.WithFilterPut())
			run(func() error {
				for resp := range deleted {
					if err := resp.Err(); err != nil && ctx.Err() == nil {
						return err
					}
					c.recordRemoved(resp.Events, history.Now())
				}
				return nil
			})
		}
	}
}

// recordRemoved records deleted keys that another member has not reported before.
func (c *silentCluster) recordRemoved(events []*clientv3.Event, at history.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		k := removedKey{string(e.Kv.Key), string(e.PrevKv.Value), e.Kv.ModRevision, at}
		if !slices.ContainsFunc(c.removed, func(o removedKey) bool { return o.key == k.key && o.revision == k.revision }) {
			c.removed = append(c.removed, k)
		}
	}
}

// removedSince returns the keys with a prefix that were deleted since then.
func (c *silentCluster) removedSince(prefix string, at history.Instant) (out []removedKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.removed {
		if strings.HasPrefix(k.key, prefix) && k.at >= at {
			out = append(out, k)
		}
	}
	return out
}

// atRest returns the leader if all nodes are members and candidates, agree on a leader, and serve all shards.
func (c *silentCluster) atRest() (*silentNode, error) {
	var leader *silentNode
	serving := 0
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, n := range c.nodes {
		st, err := n.Status(ctx)
		if err != nil {
			return nil, err
		}
		err = errors.Join(ready(st), equal("nodes", len(st.Nodes), len(c.nodes)),
			equal("queued", len(st.Queue), len(c.nodes)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name, err)
		}
		i := slices.IndexFunc(c.nodes, func(n *silentNode) bool { return n.Advertise == st.LeaderID })
		if i < 0 || leader != nil && leader != c.nodes[i] {
			return nil, fmt.Errorf("%s names %q", n.Name, st.LeaderID)
		}
		leader = c.nodes[i]
		shards, err := n.Metric(ctx, "goverse_shards_serving")
		if err == nil && shards == 0 && len(c.nodes) < silentShards {
			err = fmt.Errorf("%s serves no shard", n.Name)
		}
		if err != nil {
			return nil, err
		}
		serving += int(shards)
	}
	return leader, equal("shards", serving, silentShards)
}

// awaitRest waits until the cluster is at rest, and returns the leader.
func (c *silentCluster) awaitRest() (leader *silentNode) {
	c.Helper()
	procs.Await(c, c.limit(), "all nodes are members, agree on a leader, and serve all shards", func() (err error) {
		for _, n := range c.nodes {
			if !n.Running() {
				c.Fatalf("%s has ended (%s)", n.Name, n.State())
			}
		}
		leader, err = c.atRest()
		return err
	})
	return leader
}

// limit limits all waits; only a failure takes so long.
func (c *silentCluster) limit() time.Duration { return 3*c.ttl() + time.Minute }

func (c *silentCluster) ttl() time.Duration { return time.Duration(c.cfg.TTL) * time.Second }

// begin waits until the cluster is at rest, and then for a random time, and begins a round.
func (c *silentCluster) begin(fault string) *silentRound {
	c.Helper()
	c.awaitRest()
	procs.SleepUntil(time.Now().Add(rand.N(min(c.ttl()/3, silentPhase))))
	leader := c.awaitRest()
	st, err := leader.Status(requestContext(c.T))
	require.NoError(c, err)
	r := c.beginAt(leader, fault)
	r.token = st.Token
	return r
}

// beginAt begins a round with a fault of this victim.
func (c *silentCluster) beginAt(victim *silentNode, fault string) *silentRound {
	c.meter.StartLap()
	r := &silentRound{victim: victim, slowdown: 1, heal: c.rec.BeginFault(victim.Name, fault, "")}
	c.rounds = append(c.rounds, r)
	r.at = history.Now()
	return r
}

// awaitNext waits until another node leads, and the nodes other than the victim serve all shards.
func (c *silentCluster) awaitNext(r *silentRound) {
	c.Helper()
	procs.Await(c, c.limit(), "another node leads, and the others serve all shards", func() error {
		led, serving := false, 0
		for _, n := range c.nodes {
			if n == r.victim {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			st, err := n.Status(ctx)
			if err != nil {
				return err
			}
			led = led || st.IsLeader && st.Token > r.token
			shards, err := n.Metric(ctx, "goverse_shards_serving")
			if err != nil {
				return err
			}
			serving += int(shards)
		}
		return errors.Join(equal("led by another", led, true), equal("shards", serving, silentShards))
	})
}

// end records that the fault has been undone, and waits until the victim is a member again.
func (c *silentCluster) end(r *silentRound) {
	c.Helper()
	r.healed, r.slowdown = history.Now(), c.meter.Slowdown()
	c.awaitRest()
	r.back = history.Now().Sub(r.healed)
	r.heal()
}

// stop ends all nodes and observations, and returns the merged history.
func (c *silentCluster) stop() history.History {
	c.Helper()
	paths := []string{c.record.Name()}
	c.over = history.Now()
	for _, n := range c.nodes {
		n.Signal(c, syscall.SIGTERM)
	}
	for _, n := range c.nodes {
		require.Zero(c, n.Exit(c, c.limit()), "%s failed", n.Name)
		paths = append(paths, n.Record)
	}
	c.ended()
	c.wg.Wait()
	require.NoError(c, c.err)
	require.NoError(c, c.rec.Stop())
	h, err := history.ReadFiles(paths...)
	require.NoError(c, err)
	return h
}
