// Package queuestest is what the tests of locks, elections and effects play in: an etcd, and
// processes with a session each whose connection can fail. Each test has its own.
//
// Not promised: that a process stops as a node does, in order. Stop only ends it.
package queuestest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/etcdtest"
)

const (
	// Short is a TTL for tests in which sessions are lost; on a machine that is busy others are
	// lost too.
	Short = 2 * time.Second
	// Long is a TTL for tests in which none should be.
	Long = 30 * time.Second
	// RequestTimeout is what a process is to give its requests: with less, those of a busy
	// machine fail that are meant to succeed.
	RequestTimeout = time.Second

	patience = time.Minute
)

// Scene is an etcd and a client of it that no fault touches.
type Scene struct {
	*testing.T
	Ctx    context.Context // ends only if the test hangs
	Keys   state.Keys
	Client *clientv3.Client

	ttl      time.Duration
	endpoint string
}

// New starts an etcd, which ends with the test. ttl is that of the processes' sessions.
func New(t *testing.T, ttl time.Duration) *Scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	server := etcdtest.Start(t)
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	s := &Scene{T: t, Ctx: ctx, Keys: keys, ttl: ttl, endpoint: server.Endpoint()}
	s.Client = s.connect()
	return s
}

// In is the same scene, for a part of the test: what starts in it ends with that.
func (s *Scene) In(t *testing.T) *Scene {
	part := *s
	part.T = t
	return &part
}

func (s *Scene) connect() *clientv3.Client {
	s.Helper()
	return etcdtest.Dial(s.T, s.endpoint)
}

// Process is what one process has.
type Process struct {
	Client *clientv3.Client
	Keeper *session.Keeper
	Faults *clustertest.Faults

	stop func()
}

// Start starts a process with a connection and a session of its own. wire makes what it runs,
// until ctx ends. It is stopped with the test.
func (s *Scene) Start(wire func(p *Process) (run func(ctx context.Context), err error)) *Process {
	s.Helper()
	p := &Process{Client: s.connect()}
	p.Faults = clustertest.Inject(p.Client)
	var err error
	p.Keeper, err = session.NewKeeper(session.KeeperConfig{Config: session.Config{Client: p.Client, TTL: s.ttl}})
	require.NoError(s, err)
	run, err := wire(p)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Keeper.Run(ctx) })
	wg.Go(func() { run(ctx) })
	p.stop = func() {
		cancel()
		wg.Wait()
	}
	s.Cleanup(p.stop)
	return p
}

// Stop ends the process and its session. Stopping it again is harmless.
func (p *Process) Stop() { p.stop() }

// Under are the keys with that prefix, the first to be created first.
func (s *Scene) Under(prefix string) []string {
	s.Helper()
	resp, err := s.Client.Get(s.Ctx, prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(s, err)
	keys := []string{}
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// Eventually waits until cond is true.
func (s *Scene) Eventually(cond func() bool, what string) {
	s.Helper()
	require.Eventually(s, cond, patience, time.Millisecond, what)
}
