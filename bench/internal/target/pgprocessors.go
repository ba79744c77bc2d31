package target

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/bench/internal/report"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/needed"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// tableOfNumbers is a table of numbered events as a source of numbers.
type tableOfNumbers struct{ rows *postgres.Source }

// errTooFewEvents is the error of a source that has no more events.
var errTooFewEvents = errors.New("the processors have handled all events of the table: give it more")

func (t tableOfNumbers) Read(ctx context.Context, after processor.Position, limit int) (
	[]processor.Event[int64], error) {
	rows, err := t.rows.Read(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	if len(rows) < limit {
		return nil, errTooFewEvents
	}
	events := make([]processor.Event[int64], len(rows))
	for i, row := range rows {
		n, err := strconv.ParseInt(string(row.Value), 10, 64)
		if err != nil {
			return nil, err
		}
		events[i] = processor.Event[int64]{Position: row.Position, Value: n}
	}
	return events, nil
}

// eventsOf creates a table of n events.
func eventsOf(ctx context.Context, pool *pgxpool.Pool, n int) (processor.Source[int64], error) {
	for _, sql := range []string{
		`CREATE TABLE events (xid xid8 NOT NULL DEFAULT pg_current_xact_id(), id bigserial, body jsonb NOT NULL,
			PRIMARY KEY (xid, id))`,
		fmt.Sprintf("INSERT INTO events (body) SELECT to_jsonb(i) FROM generate_series(1, %d) i", n),
		"VACUUM ANALYZE events",
	} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	rows, err := postgres.NewSource(postgres.SourceConfig{DB: pool, Table: "events"})
	return tableOfNumbers{rows}, err
}

// processorsOnPostgres measures the cost of the leader lock for processors that have PostgreSQL alone: source,
// checkpoint and lock.
func processorsOnPostgres(ctx context.Context, env Env, r *report.Result) (err error) {
	server, err := pgserver.Start()
	if errors.Is(err, pgserver.ErrNotInstalled) && !needed.Required("postgres") {
		r.Row(sessionName, "", fmt.Sprintf("not measured: %v", err), report.Context)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	cfg, err := pgxpool.ParseConfig(server.URL())
	if err != nil {
		return err
	}
	cfg.MaxConns = postgresConnections
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	source, err := eventsOf(ctx, pool, env.pick(2_000_000, 200_000))
	if err != nil {
		return err
	}
	session, err := pgsession.Open(ctx, pgsession.Config{URL: server.URL()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()
	locks := lockpg.New(session)
	pairs, rounds := env.pick(15, 1), env.pick(10, 1)
	for i, n := range []int{1, projections + automations} {
		checkpoints, err := postgres.New(postgres.Config{DB: pool, Table: fmt.Sprint("checkpoints_", i)})
		if err != nil {
			return err
		}
		if err := checkpoints.CreateTables(ctx); err != nil {
			return err
		}
		name := fmt.Sprintf("source and checkpoint in PostgreSQL, processors: %d", n)
		env.Log("processors: %s, %d pairs of %v each", name, pairs, time.Duration(2*rounds)*turnTime)
		if err := lockOrNot(ctx, r, lockCosts{name, n, source, checkpoints, func(name string) processor.LeaderLock {
			return processor.Lock(locks, name)
		}}, pairs, rounds); err != nil {
			return err
		}
	}
	r.Note("Events come from a table, 100 to a batch, and are counted; each batch is a transaction that stores the "+
		"position, on the disk before the next one. "+turnsNote, turnTime, 2*rounds)
	return nil
}
