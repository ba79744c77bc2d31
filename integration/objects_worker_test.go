//go:build unix

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/node"
)

// objectsWorkerEnv makes a copy of the test binary a node with counters. It holds an objectsWorkerConfig.
const objectsWorkerEnv = "GOVERSE_INTEGRATION_OBJECTS_WORKER"

func init() {
	if config, asked := os.LookupEnv(objectsWorkerEnv); asked {
		os.Exit(objectsWorkerProgram(config))
	}
}

// objectShards is so large that each node has many shards, and a move of all of a node's shards takes a while.
const objectShards = 256

// Mutants of the worker.
const (
	// forgetful ignores the names of requests, so a repeated request takes effect again.
	forgetful = "forgetful"
	// unfencedState stores without a condition.
	unfencedState = "unfenced"
)

// objectsWorkerConfig configures a worker.
type objectsWorkerConfig struct {
	Advertise, Etcd, Postgres string
	// Dir holds files by which the test and the worker notify each other.
	Dir    string
	TTL    int
	Mutant string
}

// These are the actions of a counter's method Do; the key of the request is its name.
const (
	// dieAfter adds 1, and kills the process after that is stored, unless it was done before.
	dieAfter = "die"
	// blockBefore adds 1, and stores that when the file resumeFile exists, regardless of its context.
	blockBefore = "block"
)

const (
	diedFile   = "died"
	resumeFile = "resume"
)

// These are the messages of a worker.
const (
	saidBegun  = "the blocked method has begun"
	saidFenced = "the blocked method was refused by its epoch"
	saidStored = "the blocked method has stored its sum"
	saidEnded  = "the context of the blocked method has ended"
)

func objectsWorkerProgram(encoded string) int {
	if err := runObjectsWorker(encoded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runObjectsWorker runs a node that hosts counters until SIGTERM.
func runObjectsWorker(encoded string) error {
	var cfg objectsWorkerConfig
	if err := json.Unmarshal([]byte(encoded), &cfg); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, cfg.Postgres+fmt.Sprint("&pool_max_conns=", poolSize))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := connect(ctx, pool); err != nil {
		return err
	}
	log := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.Advertise})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(objectsConfig(cfg.Etcd, cfg.TTL, log), n)
	if err != nil {
		return err
	}
	inDatabase, err := postgres.New(postgres.Config{DB: pool})
	if err != nil {
		return err
	}
	var store state.Store = inDatabase
	if cfg.Mutant == unfencedState {
		store = &unfencedStore{inDatabase, pool}
	}
	objects.Register(c, probepb.RegisterProbeServer, func(ctx context.Context, o *objects.Object) (probepb.ProbeServer,
		error) {
		s, err := state.Load(ctx, store, o, &wrapperspb.Int64Value{})
		if err != nil {
			return nil, err
		}
		return &counter{cfg: cfg, object: o, state: s}, nil
	})
	if err := c.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	stopping, done := context.WithTimeout(context.Background(), patience)
	defer done()
	return c.Stop(stopping)
}

// poolSize is the number of a worker's connections to PostgreSQL.
const poolSize = 12

// connect opens all connections of a pool before the node joins. The node gets a share of the objects at once,
// and their first calls would otherwise wait for the connections.
func connect(ctx context.Context, pool *pgxpool.Pool) (err error) {
	for range poolSize {
		conn, aerr := pool.Acquire(ctx)
		if aerr != nil {
			return aerr
		}
		defer conn.Release()
		err = errors.Join(err, conn.Ping(ctx))
	}
	return err
}

// objectsConfig returns the configuration that all nodes share.
func objectsConfig(etcd string, ttl int, log hclog.Logger) cluster.Config {
	return cluster.Config{EtcdAddress: etcd, EtcdPrefix: procs.Prefix, LeaderElectionTTL: ttl, Logger: log,
		CrashDetection: cluster.CrashDetection{SilenceTimeout: -1}, // the tests are about the end of a lease
		Sharding:       cluster.Sharding{Shards: objectShards, Window: 200 * time.Millisecond, MovesPerMinute: 1 << 20}}
}

// counter is an object that stores a sum in PostgreSQL.
type counter struct {
	probepb.UnimplementedProbeServer
	cfg    objectsWorkerConfig
	object *objects.Object
	state  *state.State[*wrapperspb.Int64Value]
}

// Add implements probepb.ProbeServer.
func (c *counter) Add(ctx context.Context, in *probepb.AddRequest) (*probepb.AddResponse, error) {
	return c.add(ctx, in.GetRequest(), in.GetAmount(), func() {})
}

// add stores the new sum, with the reply if the request has a name. It calls before after the state was read.
func (c *counter) add(ctx context.Context, request string, amount int64, before func()) (*probepb.AddResponse, error) {
	if c.cfg.Mutant == forgetful {
		request = ""
	}
	return state.Do(ctx, c.state, request, func(context.Context) (*probepb.AddResponse, error) {
		before()
		sum := c.state.Value()
		sum.Value += amount
		return &probepb.AddResponse{Sum: sum.GetValue(), Epoch: c.object.Epoch(), Node: c.cfg.Advertise}, nil
	})
}

// Do implements probepb.ProbeServer.
func (c *counter) Do(ctx context.Context, in *probepb.DoRequest) (*probepb.DoResponse, error) {
	switch in.GetWhat() {
	case dieAfter:
		if _, err := c.add(ctx, in.GetKey(), 1, func() {}); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(filepath.Join(c.cfg.Dir, diedFile), os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_ = f.Close()
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return &probepb.DoResponse{}, nil
	case blockBefore:
		_, err := c.add(context.WithoutCancel(ctx), in.GetKey(), 1, c.block)
		switch {
		case errors.Is(err, state.ErrFenced):
			fmt.Fprintln(os.Stderr, saidFenced)
		case err == nil:
			fmt.Fprintln(os.Stderr, saidStored)
		}
		fmt.Fprintln(os.Stderr, "the blocked method ends with:", err)
		<-ctx.Done()
		fmt.Fprintln(os.Stderr, saidEnded+":", context.Cause(ctx))
		return &probepb.DoResponse{}, err
	}
	return nil, status.Errorf(codes.NotFound, "nothing is known under %q", in.GetWhat())
}

// Chat implements probepb.ProbeServer.
func (c *counter) Chat(stream probepb.Probe_ChatServer) error {
	return probepb.EchoChat(stream)
}

// block waits for the test.
func (c *counter) block() {
	fmt.Fprintln(os.Stderr, saidBegun)
	for again := time.NewTicker(time.Millisecond); ; <-again.C {
		if _, err := os.Stat(filepath.Join(c.cfg.Dir, resumeFile)); err == nil {
			again.Stop()
			return
		}
	}
}

// unfencedStore is a mutant that compares neither epochs nor versions.
type unfencedStore struct {
	*postgres.Store
	pool *pgxpool.Pool
}

// Save implements state.Store.
func (s *unfencedStore) Save(ctx context.Context, ref state.Ref, w state.Write) (version int64, err error) {
	err = s.pool.QueryRow(ctx, `update goverse_objects set version = version + 1, state = $3, empty_since = null
		where service = $1 and key = $2 returning version`, ref.Service, []byte(ref.Key), w.Value).Scan(&version)
	return version, err
}

// objectsWorker is a worker as seen by the test.
type objectsWorker struct {
	*procs.Process
	address string
}

// startObjectsWorker starts a worker at a new address, without waiting for it.
func startObjectsWorker(t *testing.T, cfg objectsWorkerConfig) *objectsWorker {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cfg.Advertise = kit.Addresses(t, 1)[0]
	encoded, err := json.Marshal(cfg)
	require.NoError(t, err)
	p := kit.Start(t, "worker "+cfg.Advertise, self, nil, []string{objectsWorkerEnv + "=" + string(encoded)})
	return &objectsWorker{p, cfg.Advertise}
}

// resume lets the blocked method continue.
func resume(t *testing.T, w *objectWorld) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(w.cfg.Dir, resumeFile), nil, 0o600))
}
