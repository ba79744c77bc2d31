//go:build unix

package postgres_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/postgres"
	"github.com/goverse/goverse/internal/test/logtest"
)

// polls is a RetryPeriod that is much longer than any of these tests may take: what happens was notified.
const polls = 10 * time.Minute

func slowly(cfg *elector.Config) { cfg.LeaseDuration, cfg.RetryPeriod = 3*polls, polls }

// listens selects the connections that listen, by their last statements.
const listens = ` FROM pg_stat_activity WHERE query LIKE 'listen %' OR query LIKE '%transaction_read_only%bool'`

// listening waits until so many connections listen.
func (d database) listening(t *testing.T, n int) {
	t.Helper()
	pool := d.pool(t, "")
	require.Eventually(t, func() bool {
		var listen int
		err := pool.QueryRow(d.ctx, "SELECT count(*)"+listens).Scan(&listen)
		return err == nil && listen == n
	}, time.Minute, time.Millisecond, n)
}

// Leaders that stop are replaced in milliseconds, although the candidates would read only after minutes.
func (d database) notified(t *testing.T) {
	store := d.stores(nil, "")(t)
	a, b := d.stand(t, store, "a", slowly), (*candidate)(nil)
	d.led(t, a)
	var took []time.Duration
	for range 11 {
		b = d.stand(t, store, "b", slowly)
		d.follows(t, b, "a")
		d.listening(t, 2)
		began := time.Now()
		require.NoError(t, a.stop())
		took = append(took, d.led(t, b).Sub(began))
		require.NoError(t, b.stop())
		a = d.stand(t, store, "a", slowly)
		d.led(t, a)
	}
	slices.Sort(took)
	t.Logf("handover: median %v, longest %v", took[len(took)/2], took[len(took)-1])
	require.NoError(t, a.stop())
	d.listening(t, 0)
}

// A change of the holder notifies when it is committed. A renewal does not, nor does a write that is refused.
func (d database) notifies(t *testing.T) {
	pool := d.pool(t, "")
	require.NoError(t, postgres.CreateTable(d.ctx, pool, nil))
	ear, err := pgx.Connect(d.ctx, d.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, ear.Close(context.Background())) }()
	_, err = ear.Exec(d.ctx, "LISTEN goverse_leases")
	require.NoError(t, err)
	for _, mode := range []string{"cache_statement", "simple_protocol"} {
		store, err := postgres.New(postgres.Config{DB: d.pool(t, "&default_query_exec_mode="+mode), Name: "by " + mode})
		require.NoError(t, err)
		// heard returns what was notified before a notification of the test.
		heard := func() (names []string) {
			t.Helper()
			_, err := pool.Exec(d.ctx, "NOTIFY goverse_leases, 'test'")
			require.NoError(t, err)
			for {
				n, err := ear.WaitForNotification(d.ctx)
				require.NoError(t, err)
				if n.Payload == "test" {
					return names
				}
				names = append(names, n.Payload)
			}
		}
		lease, err := store.CreateLease(d.ctx, elector.Lease{HolderIdentity: "a", HolderInstance: "1"})
		require.NoError(t, err)
		require.Equal(t, []string{"by " + mode}, heard(), "created")
		_, err = store.CreateLease(d.ctx, lease)
		require.ErrorIs(t, err, elector.ErrExists)
		lease.RenewTime = time.Now()
		stale := lease
		lease, err = store.UpdateLease(d.ctx, lease)
		require.NoError(t, err)
		stale.HolderInstance = "2"
		_, err = store.UpdateLease(d.ctx, stale)
		require.ErrorIs(t, err, elector.ErrConflict)
		require.Empty(t, heard(), "renewed, or refused")
		for _, instance := range []string{"", "2", "3"} {
			lease.HolderInstance = instance
			lease, err = store.UpdateLease(d.ctx, lease)
			require.NoError(t, err)
			require.Equal(t, []string{"by " + mode}, heard(), instance)
		}

		tx, err := pool.Begin(d.ctx)
		require.NoError(t, err)
		inside, err := postgres.New(postgres.Config{DB: tx, Name: "by " + mode})
		require.NoError(t, err)
		require.NoError(t, inside.Watch(d.ctx, func() { t.Error("it cannot be watched") }))
		lease.HolderInstance = ""
		_, err = inside.UpdateLease(d.ctx, lease)
		require.NoError(t, err)
		require.Empty(t, heard(), "not committed")
		require.NoError(t, tx.Commit(d.ctx))
		require.Equal(t, []string{"by " + mode}, heard(), "committed")
	}
}

// A killed connection is replaced after a pause. A release in the meantime is found when it is.
func (d database) listensAgain(t *testing.T) {
	store := d.stores(nil, "")(t)
	var said logtest.Buffer
	a := d.stand(t, store, "a", slowly)
	d.led(t, a)
	b := d.stand(t, store, "b", slowly, func(cfg *elector.Config) { cfg.Logger = said.Logger() })
	d.follows(t, b, "a")
	d.listening(t, 2)
	_, err := d.pool(t, "").Exec(d.ctx, "SELECT pg_terminate_backend(pid)"+listens)
	require.NoError(t, err)
	require.NoError(t, a.stop())
	d.led(t, b)
	said.Await(t, "watched again")
	require.NoError(t, b.stop())
	require.Equal(t, 1, said.Count("cannot be watched"), said.String())
	require.Equal(t, 1, said.Count("watched again"), said.String())
}

// A store over a connection reads at intervals.
func (d database) connectionPolls(t *testing.T) {
	a := d.stand(t, d.stores(nil, "")(t), "a") // makes the table
	d.led(t, a)
	require.NoError(t, a.stop())
	conn, err := pgx.Connect(d.ctx, d.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	one, err := postgres.New(postgres.Config{DB: conn, Name: "polled"})
	require.NoError(t, err)
	// A request that is given up closes the only connection, so each has much time.
	patiently := func(cfg *elector.Config) { cfg.LeaseDuration = 5 * time.Minute }
	b := d.stand(t, one, "b", patiently)
	d.led(t, b)
	other, err := postgres.New(postgres.Config{DB: d.pool(t, ""), Name: "polled"})
	require.NoError(t, err)
	d.listening(t, 0)
	c := d.stand(t, other, "c", patiently)
	d.follows(t, c, "b")
	require.NoError(t, b.stop())
	d.led(t, c)
}

// Behind a pooler that pools transactions no notifications arrive, and the candidates read at intervals.
func (d database) poolerPolls(t *testing.T) {
	require.NoError(t, postgres.CreateTable(d.ctx, d.pool(t, ""), nil))
	url := d.PooledForTest(t, "transaction") + "&default_query_exec_mode=cache_describe"
	stand := func(id string) *candidate {
		store, err := postgres.New(postgres.Config{DB: d.poolAt(t, url), Name: "pooled"})
		require.NoError(t, err)
		return d.stand(t, store, id)
	}
	a := stand("a")
	d.led(t, a)
	b := stand("b")
	d.follows(t, b, "a")
	require.NoError(t, a.stop())
	d.led(t, b)
}
