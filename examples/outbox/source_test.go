//go:build unix

package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
)

type tag = pgconn.CommandTag

// reader is one way to read an outbox: it remembers how far it has come.
type reader func(t *testing.T, db *pgxpool.Pool) (next func() []string)

// byID is what must not be done.
func byID(where string) reader {
	return func(t *testing.T, db *pgxpool.Pool) func() []string {
		last := 0
		return func() []string {
			got := column(t, db, "select xid::text || '/' || id from outbox where id > "+strconv.Itoa(last)+where+" order by id")
			if len(got) > 0 {
				_, id, err := split(processor.Position(got[len(got)-1]))
				require.NoError(t, err)
				last, err = strconv.Atoi(id)
				require.NoError(t, err)
			}
			return got
		}
	}
}

// byPlace is what the example does.
func byPlace(t *testing.T, db *pgxpool.Pool) func() []string {
	source, at := &outbox{db: db}, processor.Position("")
	return func() (got []string) {
		events, err := source.Read(testContext(t), at, 1000)
		require.NoError(t, err)
		for _, e := range events {
			at = e.Position
			got = append(got, string(at))
		}
		return got
	}
}

// A transaction that commits late, and one that even gets its number late, are missed by
// readers that go by the serial number; not by ours.
func (s *scene) readers(t *testing.T) {
	commitsLate := func(t *testing.T, db *pgxpool.Pool, look func()) {
		a, b := begin(t, db), begin(t, db)
		require.NoError(t, place(testContext(t), a, "a", 1))
		require.NoError(t, place(testContext(t), b, "b", 2))
		commit(t, b)
		look()
		commit(t, a)
		look()
	}
	numberedLate := func(t *testing.T, db *pgxpool.Pool, look func()) {
		// The first number of a sequence is logged, which takes a transaction's number: not here.
		exec1(t, db, "select nextval('outbox_id_seq')")
		a, b := begin(t, db), begin(t, db)
		var id int64
		require.NoError(t, a.QueryRow(testContext(t), "select nextval('outbox_id_seq')").Scan(&id))
		require.NoError(t, place(testContext(t), b, "b", 2))
		commit(t, b)
		look()
		exec1(t, a, "insert into orders (id, customer, cents) values (-1, 'a', 1)")
		exec1(t, a, `insert into outbox (id, body) values ($1, '{"order": -1}')`, id)
		look()
		commit(t, a)
		look()
	}
	for _, c := range []struct {
		name   string
		read   reader
		events func(t *testing.T, db *pgxpool.Pool, look func())
		wrong  string
	}{
		{"by id, one commits late", byID(""), commitsLate, "is missing"},
		{"by id up to the oldest that runs, one commits late", byID(" and xid < pg_snapshot_xmin(pg_current_snapshot())"), commitsLate, ""},
		{"by id up to the oldest that runs, one is numbered late", byID(" and xid < pg_snapshot_xmin(pg_current_snapshot())"), numberedLate, "is missing"},
		{"by number and id, one commits late", byPlace, commitsLate, ""},
		{"by number and id, one is numbered late", byPlace, numberedLate, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, _ := s.database(t)
			next, arrived := c.read(t, db), []string{}
			c.events(t, db, func() { arrived = append(arrived, next()...) })
			err := judge(committed(t, db), arrived)
			if c.wrong == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.wrong)
			}
		})
	}
}

// write is one transaction: quick or slow, committed or rolled back, in whole or in part.
func write(ctx context.Context, db *pgxpool.Pool, customer string) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if rand.IntN(3) == 0 { // numbered long before it writes to the outbox
		if _, err := tx.Exec(ctx, "insert into other values (1)"); err != nil {
			return err
		}
	}
	for range 1 + rand.IntN(3) {
		if rand.IntN(8) == 0 {
			if _, err := tx.Exec(ctx, "select pg_sleep(random() / 20)"); err != nil {
				return err
			}
		}
		if rand.IntN(3) > 0 {
			if err := place(ctx, tx, customer, rand.Int64N(10000)); err != nil {
				return err
			}
			continue
		}
		part, err := tx.Begin(ctx) // a savepoint
		if err != nil {
			return err
		}
		if err := place(ctx, part, customer, 0); err != nil {
			return err
		}
		end := part.Commit
		if rand.IntN(2) == 0 {
			end = part.Rollback
		}
		if err := end(ctx); err != nil {
			return err
		}
	}
	if rand.IntN(5) == 0 {
		return nil // rolled back
	}
	return tx.Commit(ctx)
}

// writers write at a rate, until end, which waits for them.
func writers(t *testing.T, db *pgxpool.Pool, n int, every time.Duration) (end func()) {
	t.Helper()
	exec1(t, db, "create table other (n int)")
	ctx, stop := testContext(t), make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			again := time.NewTicker(every)
			defer again.Stop()
			for {
				select {
				case <-again.C:
					assert.NoError(t, write(ctx, db, "customer "+strconv.Itoa(i)))
				case <-stop:
					return
				}
			}
		})
	}
	end = sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
	t.Cleanup(end)
	return end
}

// While transactions of all kinds run, a reader that looks again and again sees each row once, in order.
func (s *scene) allKinds(t *testing.T) {
	db, _ := s.database(t)
	end := writers(t, db, 6, time.Millisecond)
	next, arrived, looks := byPlace(t, db), []string{}, 0
	for ; len(arrived) < 500; looks++ {
		arrived = append(arrived, next()...)
	}
	end()
	// The server may run a transaction of its own.
	assert.Eventually(t, func() bool {
		arrived = append(arrived, next()...)
		var all int
		require.NoError(t, db.QueryRow(testContext(t), "select count(*) from outbox").Scan(&all))
		return len(arrived) >= all
	}, patience, 10*time.Millisecond)
	require.NoError(t, judge(committed(t, db), arrived))
	t.Logf("%d rows in %d readings", len(arrived), looks)
}

// Of two transactions that change one row, the second can come first in the outbox if it wrote
// something else before. One that locks the row first of all has no number while it waits.
func (s *scene) orderOfOneRow(t *testing.T) {
	for _, c := range []struct {
		wroteBefore bool
		want        []string
	}{
		{true, []string{"second", "first"}},
		{false, []string{"first", "second"}},
	} {
		db, _ := s.database(t)
		exec1(t, db, "insert into orders (id, customer, cents) values (-1, 'a', 1)")
		first, second := begin(t, db), begin(t, db)
		var pid int
		require.NoError(t, second.QueryRow(testContext(t), "select pg_backend_pid()").Scan(&pid))
		if c.wroteBefore {
			exec1(t, second, "insert into orders (customer, cents) values ('b', 1)")
		}
		const lock, say = "select from orders where id = -1 for update", "insert into outbox (body) values (jsonb_build_object('by', $1::text))"
		exec1(t, first, lock)
		locked := make(chan error)
		go func() {
			_, err := second.Exec(testContext(t), lock)
			locked <- err
		}()
		require.Eventually(t, func() (waits bool) {
			require.NoError(t, db.QueryRow(testContext(t), "select exists (select from pg_locks where pid = $1 and not granted)", pid).Scan(&waits))
			return waits
		}, patience, 5*time.Millisecond)
		exec1(t, first, say, "first")
		commit(t, first)
		require.NoError(t, <-locked)
		exec1(t, second, say, "second")
		commit(t, second)
		require.Equal(t, c.want, column(t, db, "select body->>'by' from outbox order by xid, id"))
	}
}

func (s *scene) wakes(t *testing.T) {
	db, _ := s.database(t)
	source := &outbox{db: db}
	ctx, cancel := context.WithCancel(testContext(t))
	var wg sync.WaitGroup
	changed := source.Changed()
	wg.Go(func() { source.listen(ctx) })
	defer wg.Wait()
	defer cancel()
	await := func() {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(patience):
			t.Fatal("nothing was noticed")
		}
	}
	await() // it listens
	// A connection that breaks is made again, and that is reason enough to look.
	changed = source.Changed()
	exec1(t, db, "select pg_terminate_backend(pid) from pg_stat_activity where query = 'listen outbox'")
	await()
	changed = source.Changed()
	tx := begin(t, db)
	require.NoError(t, place(testContext(t), tx, "a", 1))
	select {
	case <-changed:
		t.Fatal("there is nothing to see before the commit")
	default:
	}
	commit(t, tx)
	await()
}

// What was published goes after a while; what was not, and what was parked, stays.
func (s *scene) cleaning(t *testing.T) {
	db, _ := s.database(t)
	ctx := testContext(t)
	require.NoError(t, order(ctx, db, 40))
	source := &outbox{db: db}
	events, err := source.Read(ctx, "", 1000)
	require.NoError(t, err)
	n := len(events)
	require.Greater(t, n, 10)
	require.NoError(t, source.park(ctx, events[2], context.Canceled))
	upTo := events[9].Position

	deleted, err := source.clean(ctx, upTo, time.Hour)
	require.NoError(t, err)
	require.Zero(t, deleted, "all of it is young")
	deleted, err = source.clean(ctx, upTo, 0)
	require.NoError(t, err)
	require.EqualValues(t, 9, deleted)
	left, err := source.Read(ctx, "", 1000)
	require.NoError(t, err)
	require.Equal(t, append(events[2:3:3], events[10:]...), left)
	lag, err := source.Lag(ctx, upTo)
	require.NoError(t, err)
	require.EqualValues(t, n-10, lag)
	_, err = source.Read(ctx, "17", 1)
	require.ErrorContains(t, err, "xid/id")
}

func begin(t *testing.T, db *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(testContext(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	require.NoError(t, tx.Commit(testContext(t)))
}
