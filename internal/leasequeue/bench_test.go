package leasequeue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// benchQueues returns queues on a model of etcd that answers at once.
func benchQueues(b *testing.B) *Queues {
	keys, err := state.NewKeys("/model")
	require.NoError(b, err)
	server := modeletcd.New()
	client := server.Connect("", well).Client()
	keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: etcd.Process{Client: client},
		TTL: time.Minute}, etcdsession.Hooks{})
	require.NoError(b, err)
	e, err := New(Config{Process: etcd.Process{Client: client}, Keeper: keeper}, keys.Locks())
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = keeper.Run(ctx) })
	wg.Go(func() { e.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		wg.Wait()
		server.Close()
	})
	b.ReportAllocs()
	return e.Queues(keys.Locks())
}

func holdOnce(b *testing.B, q *Queues, name string) {
	x, err := q.Acquire(b.Context(), EntrySpec{Name: name})
	if err == nil {
		_, err = x.ReleaseAndWait(b.Context())
	}
	require.NoError(b, err)
}

func BenchmarkAcquireAndRelease(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		for q := benchQueues(b); b.Loop(); {
			holdOnce(b, q, "it")
		}
	})
	b.Run("many names", func(b *testing.B) {
		q, callers := benchQueues(b), atomic.Int64{}
		b.SetParallelism(100)
		b.RunParallel(func(pb *testing.PB) {
			for name := fmt.Sprint(callers.Add(1)); pb.Next(); {
				holdOnce(b, q, name)
			}
		})
	})
	b.Run("one name", func(b *testing.B) {
		q := benchQueues(b)
		b.SetParallelism(100)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				holdOnce(b, q, "it")
			}
		})
	})
}

func BenchmarkValid(b *testing.B) {
	x, err := benchQueues(b).Acquire(b.Context(), EntrySpec{Name: "it"})
	require.NoError(b, err)
	for b.Loop() {
		if !x.Valid() {
			b.Fatal("not valid")
		}
	}
}
