// Package testbed provides the test bed for tests of locks, elections and effects: an etcd, and processes that
// each have a session and a connection that can fail. Each test has its own.
package testbed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/processtest"
)

const (
	// ShortTTL is a TTL for tests in which sessions are lost; on a busy machine other sessions may be lost as
	// well.
	ShortTTL = 2 * time.Second
	// LongTTL is a TTL for tests in which no session should be lost.
	LongTTL = 30 * time.Second
	// RequestTimeout is the time limit for a process's requests. With less, requests that should succeed fail
	// on a busy machine.
	RequestTimeout = time.Second

	patience = time.Minute
)

// TestBed is an etcd with a client that no fault affects.
type TestBed struct {
	*testing.T
	Ctx    context.Context // ends early only if the test hangs
	Keys   state.Keys
	Client *clientv3.Client

	ttl      time.Duration
	endpoint string
}

// New starts an etcd, which ends with the test. ttl is the TTL of the processes' sessions.
func New(t *testing.T, ttl time.Duration) *TestBed {
	t.Helper()
	server := etcdtest.Start(t) // may have to be built first
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	return &TestBed{T: t, Ctx: ctx, Keys: keys, Client: etcdtest.Dial(t, server.Endpoint()), ttl: ttl,
		endpoint: server.Endpoint()}
}

// ForSubtest returns the same test bed for a subtest. Processes that are started with it end with the subtest.
func (s *TestBed) ForSubtest(t *testing.T) *TestBed {
	part := *s
	part.T = t
	return &part
}

// Process is a process of the test bed.
type Process = processtest.Process

// Start starts a process with its own connection and session; see processtest.Start.
func (s *TestBed) Start(wire func(p *Process) (run func(ctx context.Context), err error)) *Process {
	s.Helper()
	return processtest.Start(s.T, s.endpoint, s.ttl, wire)
}

// NewEngine returns an engine of lease queues for a process.
func NewEngine(p *Process, counters state.Queues) (*leasequeue.Engine, error) {
	return NewEngineWithin(RequestTimeout, p, counters)
}

// NewEngineWithin is NewEngine with a time limit for the requests to etcd.
func NewEngineWithin(timeout time.Duration, p *Process, counters state.Queues) (*leasequeue.Engine, error) {
	return leasequeue.New(leasequeue.Config{Process: etcd.Process{Client: p.Client, RequestTimeout: timeout},
		Keeper: p.Keeper}, counters)
}

// KeysWithPrefix returns the keys with this prefix in the order of their creation.
func (s *TestBed) KeysWithPrefix(prefix string) []string {
	s.Helper()
	resp, err := s.Client.Get(s.Ctx, prefix, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(s, err)
	keys := []string{}
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// Eventually waits until cond is true.
func (s *TestBed) Eventually(cond func() bool, what string) {
	s.Helper()
	require.Eventually(s, cond, patience, time.Millisecond, what)
}
