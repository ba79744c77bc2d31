package processor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/checkpointtest"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/leasequeue/elections"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/processtest"
	"github.com/goverse/goverse/internal/test/testbed"
	"github.com/goverse/goverse/internal/wait"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

const patience = time.Minute

var errOops = errors.New("oops")

// process is one process with a client of its own. Its requests can be made to fail.
type process struct {
	client  *clientv3.Client
	faults  *etcdfault.Faults
	timeout time.Duration
	etcd    *processor.Etcd
}

// connect returns a process that allows requests the time a busy machine needs, or the given time-out.
func connect(t *testing.T, endpoint string, timeout ...time.Duration) *process {
	t.Helper()
	client := etcdtest.Dial(t, endpoint)
	p := &process{client: client, faults: etcdfault.Inject(client), timeout: append(timeout, 10*time.Second)[0]}
	p.etcd = p.in(t, "/goverse")
	return p
}

// in returns the checkpoints under a prefix.
func (p *process) in(t *testing.T, prefix string) *processor.Etcd {
	t.Helper()
	keys, err := state.NewKeys(prefix)
	require.NoError(t, err)
	e, err := processor.NewEtcd(processor.EtcdConfig{Client: p.client, Prefix: keys.Prefix(), RequestTimeout: p.timeout})
	require.NoError(t, err)
	return e
}

// stand starts a process that can stand in elections.
func stand(t *testing.T, endpoint, address string) (e *elections.Elections, faults *etcdfault.Faults) {
	t.Helper()
	keys, err := state.NewKeys("/goverse")
	require.NoError(t, err)
	p := processtest.Start(t, endpoint, 2*time.Second, func(p *processtest.Process) (run func(context.Context),
		err error) {
		queues, err := testbed.NewEngineWithin(300*time.Millisecond, p, keys.Elections())
		if err != nil {
			return nil, err
		}
		e, err = elections.New(elections.Config{Queues: queues.Queues(keys.Elections()),
			Address: address, WorkTimeout: 500 * time.Millisecond})
		return wait.RunAll(queues.Run, e.Run), err
	})
	return e, p.Faults
}

func TestMemoryConforms(t *testing.T) {
	checkpointtest.Run(t, false, func(*testing.T) (a, b checkpointtest.Checkpoint) {
		m := &processor.Memory{}
		return m, m
	})
}

func TestEtcdConforms(t *testing.T) {
	server, last := etcdtest.Start(t), 0
	checkpointtest.Run(t, false, func(t *testing.T) (a, b checkpointtest.Checkpoint) {
		last++
		at := fmt.Sprintf("/goverse/%d", last)
		return connect(t, server.Endpoint()).in(t, at), connect(t, server.Endpoint()).in(t, at)
	})
}
