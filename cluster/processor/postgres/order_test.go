//go:build unix

package postgres_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// reader is a way to read a table of events. It remembers its position.
type reader func(t *testing.T, table string) (next func() []string)

// byID reads by the serial number, which is a mistake.
func (s *testBed) byID(where string) reader {
	return func(t *testing.T, table string) func() []string {
		last := int64(0)
		return func() []string {
			got := s.column(t, "select xid::text || '/' || id from "+table+" where id > "+strconv.FormatInt(last,
				10)+where+" order by id")
			if len(got) > 0 {
				var err error
				_, last, err = postgres.Place(processor.Position(got[len(got)-1]))
				require.NoError(t, err)
			}
			return got
		}
	}
}

// Readers that go by the serial number miss a transaction that commits late, and one that even gets its number
// late. A Source misses neither.
func (s *testBed) readers(t *testing.T) {
	commitsLate := func(t *testing.T, table string, look func()) {
		a, b := s.begin(t), s.begin(t)
		execute(t, a, "insert into "+table+" (body) values ('1')")
		execute(t, b, "insert into "+table+" (body) values ('2')")
		commit(t, b)
		look()
		commit(t, a)
		look()
	}
	numberedLate := func(t *testing.T, table string, look func()) {
		// The first number of a sequence is logged, which takes a transaction number. Draw it before the
		// transactions begin.
		execute(t, s.pool, "select nextval('"+table+"_id_seq')")
		a, b := s.begin(t), s.begin(t)
		var id int64
		require.NoError(t, a.QueryRow(etcdtest.Context(t), "select nextval('"+table+"_id_seq')").Scan(&id))
		execute(t, b, "insert into "+table+" (body) values ('2')")
		commit(t, b)
		look()
		execute(t, a, "insert into "+table+" (id, body) values ($1, '1')", id)
		look()
		commit(t, a)
		look()
	}
	const oldest = " and xid < pg_snapshot_xmin(pg_current_snapshot())"
	source := func(t *testing.T, table string) func() []string { return follow(t, s.source(t, table)) }
	for _, c := range []struct {
		name   string
		read   reader
		events func(t *testing.T, table string, look func())
		misses bool
	}{
		{"by id, one commits late", s.byID(""), commitsLate, true},
		{"by id up to the oldest that runs, one commits late", s.byID(oldest), commitsLate, false},
		{"by id up to the oldest that runs, one is numbered late", s.byID(oldest), numberedLate, true},
		{"a source, one commits late", source, commitsLate, false},
		{"a source, one is numbered late", source, numberedLate, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := s.table(t)
			next, arrived := c.read(t, table), []string{}
			c.events(t, table, func() { arrived = append(arrived, next()...) })
			committed := s.committed(t, table)
			require.Len(t, committed, 2)
			if c.misses {
				require.Len(t, arrived, 1)
				require.Subset(t, committed, arrived)
			} else {
				require.ElementsMatch(t, committed, arrived)
			}
		})
	}
}

// write makes one transaction: quick or slow, committed or rolled back, as a whole or in part.
func (s *testBed) write(ctx context.Context, table, other string) error {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	insert := func(tx pgx.Tx, table string) error {
		_, err := tx.Exec(ctx, "insert into "+table+" (body) values ('1')")
		return err
	}
	if rand.IntN(3) == 0 { // gets its number long before it writes events
		if err := insert(tx, other); err != nil {
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
			if err := insert(tx, table); err != nil {
				return err
			}
			continue
		}
		part, err := tx.Begin(ctx) // a savepoint
		if err != nil {
			return err
		}
		if err := insert(part, table); err != nil {
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

// While transactions of all kinds run, a source that is read repeatedly returns each event once, in order.
func (s *testBed) allKinds(t *testing.T) {
	table, other := s.table(t), s.table(t)
	ctx, stop := etcdtest.Context(t), make(chan struct{})
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for again := true; again; {
				assert.NoError(t, s.write(ctx, table, other))
				select {
				case <-stop:
					again = false
				default:
				}
			}
		})
	}
	end := sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
	defer end()
	next, arrived, looks := follow(t, s.source(t, table)), []string{}, 0
	for ; len(arrived) < 500; looks++ {
		arrived = append(arrived, next()...)
	}
	end()
	committed := s.committed(t, table)
	// The server may run a transaction of its own.
	assert.Eventually(t, func() bool {
		arrived = append(arrived, next()...)
		return len(arrived) >= len(committed)
	}, patience, 10*time.Millisecond)
	require.Equal(t, committed, arrived)
	t.Logf("%d events in %d readings", len(arrived), looks)
}

// Of two transactions that change one row, the second can come first among the events if it wrote something
// else before. One that first locks the row has no number while it waits.
func (s *testBed) orderOfOneRow(t *testing.T) {
	for _, c := range []struct {
		wroteBefore bool
		want        []string
	}{
		{true, []string{`"second"`, `"first"`}},
		{false, []string{`"first"`, `"second"`}},
	} {
		table, rows := s.table(t), s.table(t)
		execute(t, s.pool, "insert into "+rows+" (body) values ('1')")
		first, second := s.begin(t), s.begin(t)
		var pid int
		require.NoError(t, second.QueryRow(etcdtest.Context(t), "select pg_backend_pid()").Scan(&pid))
		if c.wroteBefore {
			execute(t, second, "insert into "+rows+" (body) values ('2')")
		}
		lock, say := "select from "+rows+" where id = 1 for update", "insert into "+table+" (body) values "+
			"(to_jsonb($1::text))"
		execute(t, first, lock)
		locked := make(chan error)
		go func() {
			_, err := second.Exec(etcdtest.Context(t), lock)
			locked <- err
		}()
		require.Eventually(t, func() (waits bool) {
			require.NoError(t, s.pool.QueryRow(etcdtest.Context(t),
				"select exists (select from pg_locks where pid = $1 and not granted)", pid).Scan(&waits))
			return waits
		}, patience, 5*time.Millisecond)
		execute(t, first, say, "first")
		commit(t, first)
		require.NoError(t, <-locked)
		execute(t, second, say, "second")
		commit(t, second)
		events, err := s.source(t, table).Read(etcdtest.Context(t), "", 10)
		require.NoError(t, err)
		require.Equal(t, c.want, slices.Collect(func(yield func(string) bool) {
			for _, e := range events {
				yield(string(e.Value))
			}
		}))
	}
}
