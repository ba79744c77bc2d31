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

// clean deletes what was published, up to the position, and is older than keep. It may be
// called by any process at any time with a position that was ever stored: what is published
// stays published.
func (o *outbox) clean(ctx context.Context, upTo processor.Position, keep time.Duration) (int64, error) {
	xid, id, err := postgres.Place(upTo)
	if err != nil {
		return 0, err
	}
	tag, err := o.db.Exec(ctx, `delete from outbox
where (xid, id) <= ($1::text::xid8, $2::bigint) and created < now() - $3::interval and parked is null`, xid, id, keep)
	return tag.RowsAffected(), err
}

const parkTimeout = 5 * time.Second

// park marks a row that is not published, so that it stays.
func (o *outbox) park(ctx context.Context, e processor.Event[[]byte], why error) error {
	xid, id, err := postgres.Place(e.Position)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, parkTimeout)
	defer cancel()
	_, err = o.db.Exec(ctx, "update outbox set parked = $3 where xid = $1::text::xid8 and id = $2::bigint", xid, id, why.Error())
	return err
}
