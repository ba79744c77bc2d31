package main

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
)

// outbox is the table as a processor's source, and what else is done to its rows.
type outbox struct {
	*postgres.Source
	db *pgxpool.Pool
}

func newOutbox(db *pgxpool.Pool, log hclog.Logger) (*outbox, error) {
	source, err := postgres.NewSource(postgres.SourceConfig{DB: db, Table: "outbox", Channel: "outbox", Logger: log})
	return &outbox{source, db}, err
}

const (
	// cleanTimeout bounds one cleaning; what takes longer has deleted nothing. So cleanRows bounds
	// it too: it is more than a copy publishes in a minute, one request after the other.
	cleanTimeout = 30 * time.Second
	cleanRows    = 100_000
	parkTimeout  = 5 * time.Second
)

// clean deletes what was published, up to the position, and is older than keep: the oldest
// cleanRows of it. It may be called by any process at any time with a position that was ever
// stored: what is published stays published. It blocks until that is done, or cleanTimeout has
// passed.
func (o *outbox) clean(ctx context.Context, upTo processor.Position, keep time.Duration) (int64, error) {
	xid, id, err := postgres.Place(upTo)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	tag, err := o.db.Exec(ctx, `delete from outbox where (xid, id) in (select xid, id from outbox
where (xid, id) <= ($1::text::xid8, $2::bigint) and created < now() - $3::interval and parked is null
order by xid, id limit $4)`, xid, id, keep, cleanRows)
	return tag.RowsAffected(), err
}

// park marks a row that is not published, so that it stays.
func (o *outbox) park(ctx context.Context, e processor.Event[[]byte], why error) error {
	xid, id, err := postgres.Place(e.Position)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, parkTimeout)
	defer cancel()
	_, err = o.db.Exec(ctx, "update outbox set parked = $3 where xid = $1::text::xid8 and id = $2::bigint",
		xid, id, why.Error())
	return err
}
