package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/logs/logqueue"
)

// SourceConfig configures a [Source]. DB and Table are required. Names have lower-case letters, digits and
// underscores; Table may be preceded by a schema and a dot.
type SourceConfig struct {
	// DB is never closed. Read and Lag each use a connection while they run. Listen takes one connection out of
	// the pool for good, and the pool replaces it. So a processor uses at most three connections at a time,
	// also if its checkpoint uses the same pool: Read and the checkpoint alternate, and Lag and reports run beside
	// them. With
	// fewer connections, the processors wait for each other, which counts towards RequestTimeout. A connection
	// that was abandoned during a statement occupies its place until pgx has closed it, up to 15 s.
	//
	// Pool.Close waits for abandoned connections, too: up to 15 s if the server no longer answers, and a minute
	// longer if a connection was being pinged and Config.PingTimeout of pgxpool is not set. A process that is
	// about to exit need not call it.
	DB *pgxpool.Pool
	// Table may also be a view, for example of one partition's events, or with a value composed of several
	// columns.
	Table string
	// XID and ID name the columns that determine the order of the events; see Source. Default xid and id.
	XID, ID string
	// Value names the column of the event's value, of type jsonb, json, text or bytea. Default body.
	Value string
	// Channel is notified when there are new events; see Source.Listen. Default: none, so the processor polls.
	Channel string
	// RequestTimeout limits each Read, each Lag, and the time until Listen listens, including the wait for a
	// connection of the pool. It must be longer than it takes to read a batch. If counting the remaining events
	// takes longer, the lag is unknown until fewer remain. Default 5 s.
	RequestTimeout time.Duration
	// Logger gets a line when Listen cannot listen or the table cannot be read, and when it can again. Default:
	// none.
	Logger hclog.Logger
}

// ErrForeignPosition is returned for a position that does not come from a [Source].
var ErrForeignPosition = errors.New("the position is not xid/id, so it is not of a table of events")

// Source is a table of events as a processor.Source, in PostgreSQL 13 or later. The value of an event is the
// bytes of a column. Decode them in the handler, so that an event that cannot be decoded is parked; an error in
// the source would block all later events. All methods are safe for concurrent use, so any number of processors
// may share a source.
//
// Each row needs the number of the transaction that wrote it, in addition to a number of its own:
//
//	create table events (
//		xid xid8 not null default pg_current_xact_id(),
//		id bigserial,
//		body jsonb not null,
//		primary key (xid, id)
//	);
//
// No two rows may have the same (xid, id); otherwise the second may be missed. A primary key ensures that. A
// view, for example of several tables, does not ensure it by itself.
//
// To use an existing table, add that column and a unique index on (xid, id); its existing rows are then read in
// the order of id. To read new events immediately, add a trigger:
//
//	create function events_written() returns trigger language plpgsql as $$
//	begin
//		notify events;
//		return null;
//	end $$;
//	create trigger events_written after insert on events
//		for each statement execute function events_written();
//
// # Why not by id alone
//
// Events are read in the order of (xid, id), up to the oldest transaction that still runs. Reading by id alone,
// or by a time, misses events: a number is drawn before its transaction commits. So 7 may be committed after 8,
// and a reader that has read 8 has passed 7. Reading by id up to the oldest running transaction does not help
// either. A transaction gets its xid when it first writes, and may have drawn the id before, so 7 can have a
// later xid than 8.
//
// Reading by (xid, id) misses none. Each transaction below pg_snapshot_xmin is over: its rows are visible or
// never will be, and no later transaction gets a smaller number. The xid is that of the whole transaction, also
// within savepoints, and an xid8 does not wrap around.
//
// # Costs
//
// A transaction that has written something, anywhere on the server, and stays open delays all later events; set
// idle_in_transaction_session_timeout. So does a prepared transaction (prepare transaction), which neither a
// timeout nor a restart ends; check pg_prepared_xacts. The end of such a transaction sends no notification, so
// the delayed events may wait for up to PollInterval. Transactions that notify commit one at a time. If that is
// too slow, omit the trigger and poll.
//
// # What is not promised
//
//   - The order of two transactions that change the same row is not kept if the second one wrote something
//     else before: it may have the smaller number. If their order matters, let each lock the row first (select …
//     for update); a transaction has no number while it waits for that.
//   - Rows that are updated, or inserted with an xid of their own, may be missed.
//   - If the checkpoint is kept elsewhere and the server loses committed transactions (a restored backup,
//     promotion of a replica that lagged, synchronous_commit off), the checkpoint may be ahead of numbers that
//     are drawn again. Rewind it to the last existing event. A checkpoint in the same database goes back by
//     itself.
//   - Events restored from a dump are not in order, because the numbers of another server start again. Set xid
//     to 0 in the events that the checkpoint has passed and to 1 in the others, and rewind it to 1/0. If there
//     are several checkpoints, let all of them reach the end before the dump.
type Source struct {
	processor.Signal
	cfg       SourceConfig
	pg        *pg.DB
	read, lag string // SQL
}

var (
	_ processor.Source[[]byte] = (*Source)(nil)
	_ processor.Lagger         = (*Source)(nil)
	_ processor.Changer        = (*Source)(nil)
)

func (c SourceConfig) withDefaults() SourceConfig {
	c.XID, c.ID, c.Value = cmp.Or(c.XID, "xid"), cmp.Or(c.ID, "id"), cmp.Or(c.Value, "body")
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 5*time.Second)
	c.Logger = logqueue.New(c.Logger)
	return c
}

// Validate returns an error that matches processor.ErrBadConfig or [ErrBadTable] if the configuration is
// invalid.
func (c SourceConfig) Validate() error {
	d := c.withDefaults()
	switch {
	case d.DB == nil:
		return fmt.Errorf("%w: postgres.SourceConfig.DB is nil; give it a pgxpool.Pool", processor.ErrBadConfig)
	case !plainTable.MatchString(d.Table):
		return fmt.Errorf("%w %q: give the table of events one in small letters, digits and underscores, with a "+
			"schema and a dot before it or not", ErrBadTable, d.Table)
	case d.RequestTimeout < 0:
		return fmt.Errorf("%w: postgres.SourceConfig.RequestTimeout is negative (%v); leave it 0 for the default",
			processor.ErrBadConfig, d.RequestTimeout)
	}
	for _, name := range []string{d.XID, d.ID, d.Value, cmp.Or(d.Channel, "none")} {
		if !plainWord.MatchString(name) {
			return fmt.Errorf("%w: column or channel %q of table %s: write it in small letters, digits and underscores",
				processor.ErrBadConfig, name, d.Table)
		}
	}
	return nil
}

// NewSource returns a source, or an error if the configuration is invalid. It sends no request to the database.
func NewSource(cfg SourceConfig) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	of := strings.NewReplacer("{table}", quoteName(cfg.Table), "{xid}", quoteName(cfg.XID), "{id}", quoteName(cfg.ID),
		"{value}", quoteName(cfg.Value)).Replace
	return &Source{
		cfg: cfg,
		pg:  pg.New(cfg.DB, cfg.Logger),
		read: of(`select {xid}::text || '/' || {id}, {value} from {table}
where ({xid}, {id}) > ($1::text::xid8, $2::bigint) and {xid} < pg_snapshot_xmin(pg_current_snapshot())
order by {xid}, {id} limit $3`),
		lag: of(`select count(*) from {table} where ({xid}, {id}) > ($1::text::xid8, $2::bigint)`),
	}, nil
}

// These are like plainName, for names without a suffix.
var (
	plainTable = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}$`)
	plainWord  = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
)

// Read implements [processor.Source].
func (s *Source) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[[]byte], error) {
	xid, id, err := Place(after)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	var events []processor.Event[[]byte]
	err = s.pg.Read(ctx, func(q pg.Querier) error {
		rows, err := q.(rowQuerier).Query(ctx, s.read, xid, id, limit)
		if err != nil {
			return err
		}
		events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e processor.Event[[]byte], err error) {
			err = row.Scan(&e.Position, &e.Value)
			return e, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the events of table %s: %w", s.cfg.Table, err)
	}
	return events, nil
}

// rowQuerier is a connection of a pool.
type rowQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Lag implements [processor.Lagger]. It includes events that cannot be shown yet.
func (s *Source) Lag(ctx context.Context, after processor.Position) (n int64, err error) {
	xid, id, err := Place(after)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	if err := s.pg.QueryRow(ctx, s.lag, xid, id).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the events of table %s: %w", s.cfg.Table, err)
	}
	return n, nil
}

// Place returns the columns of the event at a position of a [Source], for statements of your own, such as
//
//	delete from events where (xid, id) <= ($1::text::xid8, $2::bigint)
//
// The position "" precedes all events. Errors match [ErrForeignPosition].
func Place(at processor.Position) (xid string, id int64, err error) {
	if at == "" {
		return "0", 0, nil
	}
	xid, number, _ := strings.Cut(string(at), "/")
	_, bad := strconv.ParseUint(xid, 10, 64)
	id, worse := strconv.ParseInt(number, 10, 64)
	if bad != nil || worse != nil {
		return "", 0, fmt.Errorf("%w: %q; does another program use the checkpoint's name?", ErrForeignPosition, at)
	}
	return xid, id, nil
}
