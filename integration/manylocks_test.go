//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/cluster/state"
	"github.com/goverse/goverse/integration/internal/procs"
)

// What is wanted at once goes in transactions inside of transactions: every etcd takes them.
func TestManyLocksAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		const many = 600
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{kit.StartEtcd(t, flavour).Endpoint}})
		require.NoError(t, err)
		defer func() { _ = client.Close() }()
		keys, err := state.NewKeys("/goverse")
		require.NoError(t, err)
		keeper, err := session.NewKeeper(session.KeeperConfig{Config: session.Config{Client: client, TTL: 30 * time.Second}})
		require.NoError(t, err)
		locks, err := lock.NewEtcd(lock.Config{Client: client, Keeper: keeper, Queues: keys.Locks()})
		require.NoError(t, err)
		var wg, both sync.WaitGroup
		running, stop := context.WithCancel(ctx)
		both.Go(func() { _ = keeper.Run(running) })
		both.Go(func() { locks.Run(running) })
		defer both.Wait()
		defer stop()
		errs := make([]error, many)
		for i := range many {
			wg.Go(func() {
				for range 3 {
					h, err := locks.Acquire(ctx, fmt.Sprint("it ", i))
					if err == nil {
						err = h.Release(ctx)
					}
					errs[i] = errors.Join(errs[i], err)
				}
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
	})
}
