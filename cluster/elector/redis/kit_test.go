//go:build unix

package redis_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/redis"
	"github.com/goverse/goverse/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

var names atomic.Int64

// newKey returns a key that no other test uses.
func newKey() string { return fmt.Sprintf("it's \"%d\" {x}", names.Add(1)) }

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// place is the name of a master, which a failover moves.
type place struct{ address atomic.Pointer[string] }

func placeAt(address string) *place {
	p := &place{}
	p.move(address)
	return p
}

func (p *place) move(address string) { p.address.Store(&address) }

// client returns a client of the server that has the name when it connects.
func (p *place) client(t *testing.T) *goredis.Client {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, *p.address.Load())
		}})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newStore(t *testing.T, client goredis.UniversalClient, key string) *redis.Store {
	t.Helper()
	store, err := redis.New(redis.Config{Client: client, Key: key})
	require.NoError(t, err)
	return store
}

// candidate is an elector that reports the beginnings of its terms.
type candidate struct {
	*elector.Elector
	starts chan int64 // the tokens of its terms
	stop   func() error
}

// stand starts a candidate, which is stopped with the test. Its RetryPeriod is 100 ms.
func stand(t *testing.T, store elector.LeaseStore, id string, lease time.Duration) *candidate {
	t.Helper()
	c := &candidate{starts: make(chan int64, 1000)}
	var err error
	c.Elector, err = elector.New(elector.Config{LeaseStore: store, CandidateID: id, LeaseDuration: lease,
		RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
		OnStartedLeading: func(ctx context.Context) { c.starts <- elector.TokenFrom(ctx); <-ctx.Done() }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- c.Run(ctx)
		close(done)
	}()
	c.stop = func() error { cancel(); return <-done }
	t.Cleanup(func() { _ = c.stop() })
	return c
}

// awaitTerm returns the token of the next term of the candidate.
func awaitTerm(ctx context.Context, t *testing.T, c *candidate) int64 {
	t.Helper()
	select {
	case token := <-c.starts:
		return token
	case <-ctx.Done():
		require.Fail(t, "it does not lead")
		return 0
	}
}

// awaitRecord waits until the store has a record that satisfies a condition, and returns it.
func awaitRecord(ctx context.Context, t *testing.T, store elector.LeaseStore,
	accept func(elector.Lease) bool) (found elector.Lease) {
	t.Helper()
	require.Eventually(t, func() bool {
		lease, err := store.GetLease(ctx)
		found = lease
		return err == nil && accept(lease)
	}, time.Minute, 5*time.Millisecond)
	return found
}
