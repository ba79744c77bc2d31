//go:build unix

package postgres_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// table creates a table of events as described in Source's comment.
func (s *testBed) table(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("source.go")
	require.NoError(t, err)
	comment, _, _ := strings.Cut(string(text), "type Source struct")
	var sql strings.Builder
	for line := range strings.Lines(comment) {
		line, _ = strings.CutPrefix(line, "//\t")
		if !strings.HasPrefix(line, "//") {
			sql.WriteString(line)
		}
	}
	_, statements, _ := strings.Cut(sql.String(), "\ncreate table")
	name := "events_" + strconv.FormatInt(s.last.Add(1), 10)
	_, err = s.pool.Exec(etcdtest.Context(t), strings.ReplaceAll("create table"+statements, "events", name))
	require.NoError(t, err)
	return name
}

func (s *testBed) source(t *testing.T, table string, change ...func(*postgres.SourceConfig)) *postgres.Source {
	t.Helper()
	cfg := postgres.SourceConfig{DB: s.pool, Table: table}
	for _, c := range change {
		c(&cfg)
	}
	source, err := postgres.NewSource(cfg)
	require.NoError(t, err)
	return source
}

// follow returns a function that returns the events since its last call.
func follow(t *testing.T, source *postgres.Source) (next func() []string) {
	t.Helper()
	at := processor.Position("")
	return func() (places []string) {
		events, err := source.Read(etcdtest.Context(t), at, 1000)
		require.NoError(t, err)
		for _, e := range events {
			at = e.Position
			places = append(places, string(at))
		}
		return places
	}
}

func (s *testBed) column(t *testing.T, sql string) []string {
	t.Helper()
	rows, err := s.pool.Query(etcdtest.Context(t), sql)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

// committed returns the places of all events, in order.
func (s *testBed) committed(t *testing.T, table string) []string {
	t.Helper()
	return s.column(t, "select xid::text || '/' || id from "+table+" order by xid, id")
}

func (s *testBed) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := s.pool.Begin(etcdtest.Context(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// execute runs a statement in a pool or in a transaction.
func execute(t *testing.T, in interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, sql string, args ...any) {
	t.Helper()
	_, err := in.Exec(etcdtest.Context(t), sql, args...)
	require.NoError(t, err)
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	require.NoError(t, tx.Commit(etcdtest.Context(t)))
}

// A writer wakes the readers when it commits, and not before. A lost connection is replaced, and the readers
// are woken then, too.
func (s *testBed) listens(t *testing.T) {
	table := s.table(t)
	var said logtest.Buffer
	source := s.source(t, table, func(c *postgres.SourceConfig) {
		c.Channel, c.Logger = c.Table, said.Logger()
	})
	s.source(t, table).Listen(context.Background()) // returns at once without a channel
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	var wg sync.WaitGroup
	changed := source.Changed()
	wg.Go(func() { source.Listen(ctx) })
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
	await() // until it listens
	write := func() {
		changed = source.Changed()
		tx := s.begin(t)
		execute(t, tx, "insert into "+table+" (body) values ('1')")
		select {
		case <-changed:
			t.Fatal("there is nothing to see before the commit")
		default:
		}
		commit(t, tx)
		await()
	}
	write()
	changed = source.Changed()
	execute(t, s.pool, "select pg_terminate_backend(pid) from pg_stat_activity where query = $1", `listen "`+table+`"`)
	await()
	write()
	cancel()
	wg.Wait()
	require.Equal(t, 1, strings.Count(said.String(), "LISTEN failed"), said.String())
	require.Equal(t, 1, strings.Count(said.String(), "LISTEN restored"), said.String())
	require.Zero(t, s.pool.Stat().AcquiredConns())
}

// Events that cannot be shown yet count as lag.
func (s *testBed) lags(t *testing.T) {
	table := s.table(t)
	source := s.source(t, table)
	execute(t, s.pool, "insert into "+table+" (body) select to_jsonb(n) from generate_series(1, 3) n")
	open := s.begin(t)
	execute(t, open, "insert into "+table+" (body) values ('4')")
	execute(t, s.pool, "insert into "+table+" (body) values ('5')")
	events, err := source.Read(etcdtest.Context(t), "", 2)
	require.NoError(t, err)
	require.Len(t, events, 2)
	lag, err := source.Lag(etcdtest.Context(t), events[1].Position)
	require.NoError(t, err)
	require.EqualValues(t, 2, lag)
	events, err = source.Read(etcdtest.Context(t), events[1].Position, 10)
	require.NoError(t, err)
	require.Len(t, events, 1, "up to the transaction that runs")
}

// Each time a database falls silent, the processor notices and counts a failure. When the database answers
// again, all processing continues.
func (s *testBed) silentSource(t *testing.T) {
	relay, err := fault.NewRelay(s.server.Address())
	require.NoError(t, err)
	defer relay.Close()
	cfg, err := pgxpool.ParseConfig(strings.Replace(s.server.URL(), s.server.Address(), relay.Address(), 1))
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(etcdtest.Context(t), cfg)
	require.NoError(t, err)
	defer pool.Close()
	table := s.table(t)
	var said logtest.Buffer
	log := said.Logger()
	source := s.source(t, table, func(c *postgres.SourceConfig) {
		c.DB, c.RequestTimeout, c.Channel, c.Logger = pool, 300*time.Millisecond, table, log
	})
	var handled atomic.Int64
	p, err := processor.New(processor.Config[[]byte]{Name: "it", Source: source, Checkpoint: &processor.Memory{},
		Logger:       log,
		PollInterval: 10 * time.Millisecond, Backoff: processor.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
		Handler: func(context.Context, processor.Event[[]byte]) error { handled.Add(1); return nil }})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { assert.NoError(t, p.Run(ctx)) })
	write := func() { execute(t, s.pool, "insert into "+table+" (body) values ('1')") }
	write()
	require.Eventually(t, func() bool { return handled.Load() == 1 }, patience, time.Millisecond)

	relay.Blackhole(fault.Both)
	require.Eventually(t, func() bool { return p.Status().Failures >= 2 }, patience, time.Millisecond)
	require.Contains(t, p.Status().LastError, table)
	said.Await(t, "could not read the source") // the failures may be of the lag alone
	_, err = source.Lag(etcdtest.Context(t), "")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	wg.Go(func() { source.Listen(ctx) })
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "LISTEN failed") }, patience,
		time.Millisecond)
	require.NoError(t, relay.Heal())
	write()
	require.Eventually(t, func() bool { return handled.Load() == 2 }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return strings.Contains(said.String(), "LISTEN restored") }, patience,
		time.Millisecond)
}

// Values of all types are returned unchanged, also with other column names and through a view.
func (s *testBed) values(t *testing.T) {
	for kind, value := range map[string]string{"jsonb": `{"a": 1}`, "json": `{"a":1}`, "text": "a", "bytea": "a"} {
		name := "order_" + strconv.FormatInt(s.last.Add(1), 10)
		execute(t, s.pool, "create schema "+name)
		execute(t, s.pool, "create table "+name+".order (\"order\" xid8 not null default pg_current_xact_id(), number "+
			"serial, value "+kind+")")
		execute(t, s.pool, "insert into "+name+".order (value) values ($1), (null)", value)
		execute(t, s.pool, "create view "+name+".user as select * from "+name+".order where value is not null")
		source := s.source(t, name+".user",
			func(c *postgres.SourceConfig) { c.XID, c.ID, c.Value = "order", "number", "value" })
		events, err := source.Read(etcdtest.Context(t), "", 10)
		require.NoError(t, err, kind)
		require.Len(t, events, 1, kind)
		require.Equal(t, value, string(events[0].Value), kind)
	}
}

// An existing table is read in the order of its ids, from the first event on to new ones.
func (s *testBed) oldTable(t *testing.T) {
	table := "events_" + strconv.FormatInt(s.last.Add(1), 10)
	execute(t, s.pool, "create table "+table+" (id bigserial primary key, body jsonb)")
	for range 5 {
		execute(t, s.pool, "insert into "+table+" (body) values ('1')")
	}
	execute(t, s.pool, "alter table "+table+" add column xid xid8 not null default pg_current_xact_id()")
	execute(t, s.pool, "insert into "+table+" (body) values ('1')")
	var ids []string
	for _, place := range follow(t, s.source(t, table))() {
		_, id, err := postgres.Place(processor.Position(place))
		require.NoError(t, err)
		ids = append(ids, strconv.FormatInt(id, 10))
	}
	require.Equal(t, []string{"1", "2", "3", "4", "5", "6"}, ids)
}

// Events restored from a dump have the numbers of another server. They are read as Source's comment describes:
// the handled events come first in the order of (xid, id), and not in that of id.
func (s *testBed) restored(t *testing.T) {
	table := s.table(t)
	execute(t, s.pool, "insert into "+table+" (xid, id, body) values ('1000000010', 1, '1'), ('1000000010', 3, '1'), "+
		"('1000000011', 2, '1')")
	execute(t, s.pool, "update "+table+" set xid = case when (xid, id) <= ('1000000010'::xid8, 3) then '0'::xid8 else "+
		"'1'::xid8 end")
	execute(t, s.pool, "select setval('"+table+"_id_seq', 3)")
	execute(t, s.pool, "insert into "+table+" (body) values ('1')")
	events, err := s.source(t, table).Read(etcdtest.Context(t), "1/0", 10)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.EqualValues(t, "1/2", events[0].Position)
	require.True(t, strings.HasSuffix(string(events[1].Position), "/4"), events[1].Position)
}

// Numbers do not wrap around as those of PostgreSQL's own rows do, and stay the same when rows are frozen.
func (s *testBed) epochs(t *testing.T) {
	table := s.table(t)
	next := follow(t, s.source(t, table))
	var got []string
	write := func(xid string) {
		for range 12 {
			execute(t, s.pool, "insert into "+table+" (xid, body) values ("+xid+", '1')")
		}
	}
	write("pg_current_xact_id()")
	execute(t, s.pool, "vacuum freeze "+table)
	got = append(got, next()...)
	require.NoError(t, s.server.SetEpoch(3))
	s.pool.Reset()
	write("'4294967290'") // before the first wrap-around
	got = append(got, next()...)
	write("pg_current_xact_id()")
	got = append(got, next()...)
	require.Len(t, got, 36)
	require.Equal(t, s.committed(t, table), got)
	again, err := s.source(t, table).Read(etcdtest.Context(t), "", 100)
	require.NoError(t, err)
	for i, e := range again {
		require.EqualValues(t, got[i], e.Position)
	}
}

func (s *testBed) badSources(t *testing.T) {
	for says, cfg := range map[string]postgres.SourceConfig{
		"DB is nil":                 {Table: "events"},
		`bad table name ""`:         {DB: s.pool},
		`bad table name "Events"`:   {DB: s.pool, Table: "Events"},
		`bad table name "a.b.c"`:    {DB: s.pool, Table: "a.b.c"},
		`channel "a; drop table b"`: {DB: s.pool, Table: "events", Channel: "a; drop table b"},
		`channel "x\"id"`:           {DB: s.pool, Table: "events", XID: `x"id`},
		`channel "a.id"`:            {DB: s.pool, Table: "events", ID: "a.id"},
		`channel "Body"`:            {DB: s.pool, Table: "events", Value: "Body"},
	} {
		_, err := postgres.NewSource(cfg)
		require.ErrorContains(t, err, says)
	}
	source := s.source(t, "nowhere")
	_, err := source.Read(etcdtest.Context(t), "", 1)
	require.ErrorContains(t, err, "nowhere")
	_, err = source.Lag(etcdtest.Context(t), "")
	require.ErrorContains(t, err, "nowhere")
	for _, at := range []processor.Position{"17", "/", "1/", "/1", "a/1", "1/a", "-1/1", "1/1/1"} {
		_, err := source.Read(etcdtest.Context(t), at, 1)
		require.ErrorIs(t, err, postgres.ErrForeignPosition, at)
		_, err = source.Lag(etcdtest.Context(t), at)
		require.ErrorIs(t, err, postgres.ErrForeignPosition, at)
	}
}
