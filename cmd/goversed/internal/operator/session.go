package operator

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

// requestTTL is the TTL of the session that carries an operator's request.
const requestTTL = 5 * time.Second

// requestOwner is the owner that requests of operators show in etcd.
const requestOwner = "an operator"

// newKeeper returns a keeper of an operator's session, which onSession runs. ReadKey is a key that its user may
// read.
func (o *Operator) newKeeper(readKey string) (*etcdsession.Keeper, error) {
	return etcdsession.NewKeeper(etcdsession.Config{Process: etcd.Process{Client: o.client}, TTL: requestTTL,
		ReadKey: readKey}, etcdsession.Hooks{})
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
