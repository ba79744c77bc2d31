package operator

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

// askingTTL is that of the session on which an operator asks for something.
const askingTTL = 5 * time.Second

// operatorsName is who asks, for those who read it at etcd.
const operatorsName = "an operator"

// newKeeper keeps a session of this operator's own, while onSession lasts. readKey is one that its
// user may read.
func (o *Operator) newKeeper(readKey string) (*etcdsession.Keeper, error) {
	return etcdsession.NewKeeper(etcdsession.KeeperConfig{Config: etcdsession.Config{Client: o.client, TTL: askingTTL,
		ReadKey: readKey}})
}

// onSession does something on the keeper's session, while run runs; it ends both, and the session.
func onSession(ctx context.Context, keeper *etcdsession.Keeper, run func(context.Context), do func() error) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { _ = keeper.Run(life) }) // nothing is registered that could fail
	wg.Go(func() { run(life) })
	defer wg.Wait()
	defer end()
	return do()
}
