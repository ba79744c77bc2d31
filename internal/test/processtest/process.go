// Package processtest provides tests with processes that are not nodes: a connection to etcd with requests that
// can fail, a session, and the components that use it.
//
// Not promised: a process does not stop in order, as a node does. Stop only ends it.
package processtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// Process holds the parts of one process.
type Process struct {
	Client *clientv3.Client
	Keeper *etcdsession.Keeper
	Faults *etcdfault.Faults // of Client

	stop func()
}

// Start starts a process with its own connection to the etcd at endpoint, and sessions with the given TTL. wire
// creates the components of the process; run runs them until its ctx ends. The process is stopped when the test
// ends.
func Start(t testing.TB, endpoint string, ttl time.Duration,
	wire func(p *Process) (run func(ctx context.Context), err error)) *Process {
	t.Helper()
	client := etcdtest.Dial(t, endpoint)
	p := &Process{Client: client, Faults: etcdfault.Inject(client)}
	var err error
	p.Keeper, err = etcdsession.NewKeeper(etcdsession.Config{Process: etcd.Process{Client: client}, TTL: ttl},
		etcdsession.Hooks{})
	require.NoError(t, err)
	run, err := wire(p)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Keeper.Run(ctx) })
	wg.Go(func() { run(ctx) })
	p.stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(p.stop)
	return p
}

// Stop ends the process and its session. Stopping it again is harmless.
func (p *Process) Stop() { p.stop() }
