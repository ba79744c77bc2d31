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

// SourceConfig says which table has the events. DB and Table are required. Names are in small
// letters, digits and underscores; Table may have a schema before it, with a dot.
type SourceConfig struct {
	// DB is never closed. Read and Lag take a connection each for as long as they last, and Listen takes
	// one out of the pool for good, which replaces it. So a processor has two at most at a time, of the
	// checkpoint's too where both use one pool: Read and the checkpoint take turns, Lag is beside them.
	// With fewer for each processor they wait for one another, which is part of RequestTimeout. A
	// connection that was given up in the middle of a statement counts until pgx has closed it, up to 15 s.
	//
	// Pool.Close waits for those too: up to 15 s if the server says nothing any more, and a minute longer
	// if a connection was being pinged and Config.PingTimeout of pgxpool is not set. A process that
	// ends anyway need not call it.
	DB *pgxpool.Pool
	// Table may also be a view, of one partition's events, say, or with a value made of several
	// columns.
	Table string
	// XID and ID are the columns that say in which order the events come; see Source. Default xid
	// and id.
	XID, ID string
	// Value is the column of what is handled, of type jsonb, json, text or bytea. Default body.
	Value string
	// Channel is what is notified when there are new events; see Source.Listen. Default: none, so
	// the processor polls.
	Channel string
	// RequestTimeout bounds each Read and each Lag, and how long Listen waits until it listens; waiting
	// for a connection of the pool is part of it. It must be longer than it takes to read a batch; where
	// counting all that is behind takes longer, the lag is not known until there is less. Default 5 s.
	RequestTimeout time.Duration
	// Logger gets a line when Listen cannot listen or the table cannot be read, and when it can again. Default: none.
	Logger hclog.Logger
}

// ErrForeignPosition: a position is not of a [Source].
var ErrForeignPosition = errors.New("the position is not xid/id, so it is not of a table of events")

// Source is a table of events as a processor.Source, in PostgreSQL 13 or later. An event's value
// is the column's bytes: decode them in the handler, where what makes no sense is parked; here it
// would hold up all that comes after. All methods are safe for concurrent use, so any number of
// processors may have the same source.
//
// The table needs the number of the transaction that wrote the row, beside one of its own:
//
//	create table events (
//		xid xid8 not null default pg_current_xact_id(),
//		id bigserial,
//		body jsonb not null,
//		primary key (xid, id)
//	);
//
// No two rows may have the same (xid, id): of two at one place, the second may be passed by. A
// primary key makes sure of that; a view, of several tables, say, does not by itself.
//
// Where a table is there already, add that column and a unique index on (xid, id); what it has then
// comes in the order of id. And so that new events are seen at once:
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
// Events are read in the order (xid, id), up to the oldest transaction that still runs. By id
// alone, or by a time, some are missed: a number is drawn before the transaction commits, so 7 may
// be committed after 8, and a reader that has seen 8 has passed 7. It does not help to read by id
// up to the oldest running transaction: a transaction gets its xid when it first writes, and may
// have drawn the id before that, so 7 can have a later xid than 8.
//
// Read this way none is missed. Each transaction below pg_snapshot_xmin is over: its rows are
// visible or will never be, and none that comes later gets a number below. The xid is the whole
// transaction's, within savepoints too, and as an xid8 it does not wrap around.
//
// # What that costs
//
// A transaction that has written something, anywhere on the server, and stays open holds up all
// events that come after it: set idle_in_transaction_session_timeout. A prepared transaction
// (prepare transaction) does so too, and no timeout ends it, nor does a restart: look at
// pg_prepared_xacts. When one ends nobody is notified, so PollInterval is how long those events
// may wait. Transactions that notify commit one at a time: where that is too slow, do without the
// trigger, and poll.
//
// # What is not promised
//
//   - The order of two transactions that change the same row, if the one that comes second there
//     wrote something else before: it may have the smaller number. Where their order matters, let
//     each lock the row first of all (select … for update); it has no number while it waits.
//   - Anything about rows that are changed, or inserted with an xid of their own.
//   - Anything about a server that has forgotten what it had committed (a backup, a replica that
//     was behind when it was promoted, synchronous_commit off) if the checkpoint is elsewhere. It
//     may be beyond numbers that are drawn again: rewind it to the last event that is there. A
//     checkpoint in the same database has gone back by itself.
//   - Anything about events that were restored from a dump: another server's numbers begin anew.
//     Set xid to 0 in those that the checkpoint has passed, to 1 in the others, and rewind it to 1/0;
//     where there are several checkpoints, let all of them come to the end before the dump.
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

// Validate reports what is wrong with the configuration; errors match processor.ErrBadConfig or [ErrBadTable].
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

// NewSource checks the configuration. It asks the database nothing.
func NewSource(cfg SourceConfig) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	of := strings.NewReplacer("{table}", quoted(cfg.Table), "{xid}", quoted(cfg.XID), "{id}", quoted(cfg.ID),
		"{value}", quoted(cfg.Value)).Replace
	return &Source{
		cfg: cfg,
		pg:  pg.New(cfg.DB, cfg.Logger),
		read: of(`select {xid}::text || '/' || {id}, {value} from {table}
where ({xid}, {id}) > ($1::text::xid8, $2::bigint) and {xid} < pg_snapshot_xmin(pg_current_snapshot())
order by {xid}, {id} limit $3`),
		lag: of(`select count(*) from {table} where ({xid}, {id}) > ($1::text::xid8, $2::bigint)`),
	}, nil
}

// Like plainName, but of tables that have nothing beside them.
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
		rows, err := q.(rower).Query(ctx, s.read, xid, id, limit)
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

// rower is a connection of a pool.
type rower interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Lag implements [processor.Lagger]. It counts also what cannot be shown yet.
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

// Place is where the event at a position of a [Source] lies, for statements of your own such as
//
//	delete from events where (xid, id) <= ($1::text::xid8, $2::bigint)
//
// Errors match [ErrForeignPosition]. "" is before all.
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
