package operator

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/leasequeue"
	"github.com/goverse/goverse/internal/state"
)

// requestTTL is the TTL of the session that carries an operator's request.
const requestTTL = 5 * time.Second

// requestOwner is the owner that requests of operators show in etcd.
const requestOwner = "an operator"

// newQueues returns a keeper of an operator's session and queues on it, which onSession runs. ReadKey is a key that
// the operator's user may read, and root that of the queues' counters.
func (o *Operator) newQueues(readKey string, root state.Queues) (*etcdsession.Keeper, *leasequeue.Engine, error) {
	process := etcd.Process{Client: o.client}
	keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: process, TTL: requestTTL, ReadKey: readKey},
		etcdsession.Hooks{})
	if err != nil {
		return nil, nil, err
	}
	queues, err := leasequeue.New(leasequeue.Config{Process: process, Keeper: keeper}, root)
	return keeper, queues, err
}

// onSession calls do while the keeper and run are running. It ends both and the session before it returns.
func onSession(ctx context.Context, keeper *etcdsession.Keeper, run func(context.Context), do func() error) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { _ = keeper.Run(life) }) // without a registration it never fails for good
	wg.Go(func() { run(life) })
	defer wg.Wait()
	defer end()
	return do()
}
