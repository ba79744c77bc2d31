package lock_test

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/lock"
)

// One holder at a time in the whole cluster. This example uses locks in memory; programs use Cluster.Locks.
func ExampleLockRegistry() {
	ctx := context.Background()
	var locks lock.LockRegistry = &lock.Memory{}

	held, err := locks.Acquire(ctx, "invoice/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, free, err := locks.TryAcquire(ctx, "invoice/42")
	fmt.Println("somebody else gets it:", free, err)
	fmt.Println("may be acted on:", held.Valid(), "token:", held.Token())
	fmt.Println("released:", held.Release(ctx))
	fmt.Println("its context has ended:", context.Cause(held.Context()))
	// Output:
	// somebody else gets it: false <nil>
	// may be acted on: true token: 1
	// released: <nil>
	// its context has ended: it was released
}

// Writes to etcd under a lock use its Txn: etcd refuses a holder that has lost the lock without noticing.
func ExampleHeld_txn() {
	write := func(ctx context.Context, held lock.Held) error {
		_, err := held.Txn(ctx).Then(clientv3.OpPut("/invoice/42", "paid")).Commit() // lock.ErrLost if it is lost
		return err
	}
	_ = write
}

// Middleware that runs one command of each key at a time, whichever node receives it.
func ExampleSingleWriter() {
	type book struct{ seat, name string }
	seats := map[string]string{}
	handle := lock.SingleWriter(&lock.Memory{}, func(b book) string { return "seat/" + b.seat },
		func(_ context.Context, b book) (string, error) {
			if seats[b.seat] == "" {
				seats[b.seat] = b.name
			}
			return seats[b.seat], nil
		})
	for _, name := range []string{"Ada", "Grace"} {
		fmt.Println(handle(context.Background(), book{"12A", name}))
	}
	// Output:
	// Ada <nil>
	// Ada <nil>
}
