// Package testbed is what the tests of locks, elections and effects play in: an etcd, and
// processes with a session each whose connection can fail. Each test has its own.
package testbed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/processtest"
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

// TestBed is an etcd and a client of it that no fault touches.
type TestBed struct {
	*testing.T
	Ctx    context.Context // ends only if the test hangs
	Keys   state.Keys
	Client *clientv3.Client

	ttl      time.Duration
	endpoint string
}

// New starts an etcd, which ends with the test. ttl is that of the processes' sessions.
func New(t *testing.T, ttl time.Duration) *TestBed {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	server := etcdtest.Start(t)
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	return &TestBed{T: t, Ctx: ctx, Keys: keys, Client: etcdtest.Dial(t, server.Endpoint()), ttl: ttl,
		endpoint: server.Endpoint()}
}

// In is the same test bed, for a part of the test: what starts in it ends with that.
func (s *TestBed) In(t *testing.T) *TestBed {
	part := *s
	part.T = t
	return &part
}

// Process is one of the test bed.
type Process = processtest.Process

// Start starts a process with a connection and a session of its own; see processtest.Start.
func (s *TestBed) Start(wire func(p *Process) (run func(ctx context.Context), err error)) *Process {
	s.Helper()
	return processtest.Start(s.T, s.endpoint, s.ttl, wire)
}

// Queues is an engine of queues of a process.
func Queues(p *Process, counters state.Queues) (*leasequeue.Engine, error) {
	return QueuesWithin(RequestTimeout, p, counters)
}

// QueuesWithin is Queues whose requests to etcd take that long at most.
func QueuesWithin(timeout time.Duration, p *Process, counters state.Queues) (*leasequeue.Engine, error) {
	return leasequeue.New(leasequeue.Config{Client: p.Client, Keeper: p.Keeper, RequestTimeout: timeout}, counters)
}

// Under are the keys with that prefix, the first to be created first.
func (s *TestBed) Under(prefix string) []string {
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
