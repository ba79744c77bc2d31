//go:build unix

package postgres_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

const patience = time.Minute

// numbers is a source of the numbers from 1 to last.
type numbers struct {
	processor.Signal
	last int
}

func (n *numbers) Read(_ context.Context, after processor.Position, limit int) ([]processor.Event[int], error) {
	i, _ := strconv.Atoi(string(after)) // "" is 0
	var events []processor.Event[int]
	for i++; i <= n.last && len(events) < limit; i++ {
		events = append(events, processor.Event[int]{Position: processor.Position(strconv.Itoa(i)), Value: i})
	}
	return events, nil
}

// run starts a processor. end stops it and waits for it.
func run[E any](t *testing.T, cfg processor.Config[E]) (p *processor.Processor[E], end func()) {
	t.Helper()
	p, err := processor.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, p.Run(ctx)) })
	end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	t.Cleanup(end)
	return p, end
}

// effects creates a table that records the work of a handler.
func (s *testBed) effects(t *testing.T) (
	handler func(ctx context.Context, e processor.Event[int]) error, all func() []int) {
	t.Helper()
	table := "effects_" + strconv.FormatInt(s.last.Add(1), 10)
	_, err := s.pool.Exec(etcdtest.Context(t), "create table "+table+" (n bigserial, event int)")
	require.NoError(t, err)
	handler = func(ctx context.Context, e processor.Event[int]) error {
		_, err := postgres.Tx(ctx).Exec(ctx, "insert into "+table+" (event) values ($1)", e.Value)
		return err
	}
	return handler, func() (got []int) {
		rows, err := s.pool.Query(etcdtest.Context(t), "select event from "+table+" order by n")
		require.NoError(t, err)
		for rows.Next() {
			var n int
			require.NoError(t, rows.Scan(&n))
			got = append(got, n)
		}
		require.NoError(t, rows.Err())
		return got
	}
}

func upTo(n int) (want []int) {
	for i := range n {
		want = append(want, i+1)
	}
	return want
}

// Two processors that stop and start in turns handle each event once.
func (s *testBed) onceEach(t *testing.T) {
	checkpoints := s.checkpoints(t)
	handler, all := s.effects(t)
	locks := &lock.Memory{}
	cfg := processor.Config[int]{Name: "views", Source: &numbers{last: 500}, Handler: handler, Checkpoint: checkpoints,
		LeaderLock: processor.Lock(locks, "views"), BatchSize: 10, Backoff: processor.Backoff{Min: time.Millisecond}}
	for {
		p, end := run(t, cfg)
		require.Eventually(t, func() bool { return p.Status().Batches >= 5 || p.Status().Position == "500" }, patience,
			time.Millisecond)
		end()
		if p.Status().Position == "500" {
			break
		}
	}
	require.Equal(t, upTo(500), all())
}
