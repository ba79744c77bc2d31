//go:build unix

package claims

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
)

// readCounter counts the queries that read queues, and the looks at the other sessions.
type readCounter struct{ queues, looks atomic.Int64 }

func (c *readCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "WHERE c.name = ANY") {
		c.queues.Add(1)
	}
	return ctx
}

func (*readCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *readCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.looks.Add(1) // a look is the only batch
	return ctx
}

func (*readCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*readCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// Each candidate of an election reads the whole queue. The longer it is, the less often: at rest, and while it changes
// all the time.
func TestLongQueueIsReadSeldom(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	const candidates, name = 100, "election/it"
	crowd := open(t, db.URL(), steady)
	ctx, end := context.WithCancel(patient(t))
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer end()
	crowd.acquire(t, Spec{Name: name})
	for range candidates - 1 {
		waiting.Go(func() { _, _ = crowd.Acquire(ctx, Spec{Name: name}) })
	}
	var log logtest.Buffer
	reads := &readCounter{}
	cfg := config("", steady, &log)
	cfg.Connect = func(context.Context) (*pgx.ConnConfig, error) {
		c, err := pgx.ParseConfig(db.URL())
		if err == nil {
			c.Tracer = reads
		}
		return c, err
	}
	k, err := Open(patient(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close(patient(t))) })
	queue := k.Follow(name)
	defer queue.Close()
	require.Eventually(t, func() bool { return len(queue.Entries()) == candidates }, patience, time.Millisecond)

	// count returns the number of reads while f runs, and how many are allowed at one in each interval, beside those of
	// the looks.
	rest := cfg.restEvery()
	count := func(each time.Duration, f func()) (n, allowed int64) {
		before, began := reads.queues.Load(), time.Now()
		f()
		took := time.Since(began)
		return reads.queues.Load() - before, 5 + int64(took/each) + int64(took/rest)
	}
	n, allowed := count(candidates*2*time.Millisecond, func() {
		for range 100 {
			_, err := crowd.Acquire(patient(t), Spec{Name: name, Try: true})
			require.ErrorIs(t, err, ErrRefused)
		}
	})
	require.LessOrEqual(t, n, allowed, "while it changes")

	waiting.Go(func() { _, _ = k.Acquire(ctx, Spec{Name: name}) }) // it looks often now
	require.Eventually(t, func() bool { return len(queue.Entries()) == candidates+1 }, patience, time.Millisecond)
	n, allowed = count(patience, func() {
		before := reads.looks.Load()
		require.Eventually(t, func() bool { return reads.looks.Load() > before+20 }, patience, time.Millisecond)
	})
	require.LessOrEqual(t, n, allowed, "at rest")
}
