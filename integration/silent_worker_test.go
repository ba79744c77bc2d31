//go:build linux

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/node"
)

// silentEnv makes a copy of the test binary a node that a fault silences. It holds a silentConfig.
const silentEnv = "GOVERSE_INTEGRATION_SILENT"

func init() {
	if config, asked := os.LookupEnv(silentEnv); asked {
		os.Exit(silentProgram(config))
	}
}

const (
	// silentShards is the number of shards: each is sampled every millisecond.
	silentShards = 8
	// silentWrites is the interval between two guarded writes of a leader.
	silentWrites = 20 * time.Millisecond
	// silentCalls is the pause between two calls of one object by one node.
	silentCalls = 25 * time.Millisecond
)

// Mutants of the program.
const (
	// silentLies makes a node claim that it leads for a second after its term has ended.
	silentLies = "lies"
	// silentUnfenced makes a node write without a guard, with the token of its last term.
	silentUnfenced = "unfenced"
)

// silentConfig configures one process.
type silentConfig struct {
	Name, Advertise, HTTP, Etcd, Prefix string
	// Record and Calls are the files in which the process records its claims and which node answers its calls.
	Record, Calls string
	TTL           int
	// Silence is CrashDetection.SilenceTimeout; 0 is the default of the package.
	Silence time.Duration
	// Garbage makes the process allocate and collect memory all the time.
	Garbage bool
	Mutant  string
	// Recipe makes the process a candidate of etcd's concurrency.Election in place of a node.
	Recipe bool
	// Idle makes a node only lead: it neither writes nor calls objects, and its shards are not sampled.
	Idle bool
	// Load makes the process only compute, in as many threads.
	Load int
}

func silentProgram(encoded string) int {
	var cfg silentConfig
	err := json.Unmarshal([]byte(encoded), &cfg)
	if err == nil {
		err = cfg.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// encode returns the text for silentEnv.
func (c silentConfig) encode(t testing.TB) string {
	text, err := json.Marshal(c)
	require.NoError(t, err)
	return string(text)
}

// run runs the process until SIGTERM.
func (c silentConfig) run() (err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if c.Load > 0 {
		compute(ctx, c.Load)
		return nil
	}
	file, err := os.Create(c.Record)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rec := history.NewRecorder(file, c.Name)
	defer func() { err = errors.Join(err, rec.Stop()) }()
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(c.Etcd, ","), Logger: zap.NewNop(),
		DialTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // the error reports only the cancelled context
	if c.Recipe {
		return runSilentRecipe(ctx, c, client, rec)
	}
	return c.runNode(ctx, client, rec)
}

// runNode runs a node. It records its claims every millisecond, writes while it leads, and calls one object in each
// shard again and again.
func (c silentConfig) runNode(ctx context.Context, client *clientv3.Client, rec *history.Recorder) (err error) {
	log := hclog.New(&hclog.LoggerOptions{Name: c.Name, Level: hclog.Info, Output: os.Stderr})
	n, err := node.NewNode(node.Config{AdvertiseAddress: c.Advertise, Logger: log})
	if err != nil {
		return err
	}
	cfg := cluster.Config{EtcdAddress: c.Etcd, EtcdPrefix: c.Prefix, LeaderElectionTTL: c.TTL, Logger: log,
		Sharding: cluster.Sharding{Shards: silentShards, Window: 200 * time.Millisecond, MovesPerMinute: 1 << 20}}
	cfg.CrashDetection.SilenceTimeout = c.Silence
	node, err := cluster.NewClusterWithNode(cfg, n)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	objects.Register(node, probepb.RegisterProbeServer, func(_ context.Context, o *objects.Object) (probepb.ProbeServer,
		error) {
		return &echo{object: o, node: c.Advertise}, nil
	})
	recorded := c.mutate(history.NodeOf(c.Name, node))
	if !c.Idle {
		recorded = recorded.WithShards(node)
	}
	rec.Add(recorded)
	if err := node.Start(ctx); err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return errors.Join(err, node.Stop(ctx))
	}
	status := httpapi.Serve(l, httpapi.New(node, httpapi.Options{}), log)
	calls, err := newCallLog(c.Calls)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	if !c.Idle {
		wg.Go(func() {
			rec.Register(c.Name, client, c.register()).Work(ctx, silentWrites, c.termsOf(node, client))
		})
		for shard := range silentShards {
			wg.Go(func() { calls.callShard(ctx, node, c.Name, shard) })
		}
	}
	if c.Garbage {
		debug.SetGCPercent(10)
		wg.Go(func() { allocate(ctx) })
	}
	<-ctx.Done()
	wg.Wait()
	stopping, cancelStop := context.WithTimeout(context.Background(), patience)
	defer cancelStop()
	return errors.Join(status.Stop(stopping), node.Stop(stopping), calls.close())
}

// register is the key of the guarded writes.
func (c silentConfig) register() string { return c.Prefix + "-register" }

// mutate returns the node that is recorded.
func (c silentConfig) mutate(n history.Node) history.Node {
	if c.Mutant != silentLies {
		return n
	}
	leads, last, ended := n.Leads, int64(0), time.Time{}
	n.Leads = func() (bool, int64) {
		yes, token := leads()
		switch {
		case yes:
			last, ended = token, time.Time{}
		case last == 0:
		case ended.IsZero():
			ended = time.Now()
			fallthrough
		case time.Since(ended) < time.Second:
			return true, last
		}
		return yes, token
	}
	return n
}

// termsOf returns the function by which the register gets the term to write under.
func (c silentConfig) termsOf(n *cluster.Cluster, client *clientv3.Client) func() history.FencedTerm {
	terms := history.TermOf(n)
	if c.Mutant != silentUnfenced {
		return terms
	}
	return func() history.FencedTerm {
		if t := terms(); t != nil {
			return unfencedTerm{t.Token(), client}
		}
		return nil
	}
}

// unfencedTerm is a mutant of a term: its transactions have no guard.
type unfencedTerm struct {
	token  int64
	client *clientv3.Client
}

func (t unfencedTerm) Token() int64                         { return t.token }
func (t unfencedTerm) Txn(ctx context.Context) clientv3.Txn { return t.client.Txn(ctx) }
