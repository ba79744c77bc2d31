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

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/leasequeue/etcdlock"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/processtest"
)

// Concurrent requests are combined into nested transactions. Every etcd accepts those.
func TestManyLocksAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		const many = 600
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var locks *etcdlock.Registry
		processtest.Start(t, kit.StartEtcd(t, flavour).Endpoint, 30*time.Second,
			func(p *processtest.Process) (func(context.Context), error) {
				keys, err := state.NewKeys("/goverse")
				if err != nil {
					return nil, err
				}
				queues, err := leasequeue.New(leasequeue.Config{Process: etcd.Process{Client: p.Client}, Keeper: p.Keeper},
					keys.Locks())
				if err != nil {
					return nil, err
				}
				locks = etcdlock.NewRegistry(queues.Queues(keys.Locks()), "")
				return queues.Run, nil
			})
		var wg sync.WaitGroup
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
