package main

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/processor/postgres"
)

// outbox is the table as a processor's source, with the operations that clean and park its rows.
type outbox struct {
	*postgres.Source
	db *pgxpool.Pool
}

func newOutbox(db *pgxpool.Pool, log hclog.Logger) (*outbox, error) {
	source, err := postgres.NewSource(postgres.SourceConfig{DB: db, Table: "outbox", Channel: "outbox", Logger: log})
	return &outbox{source, db}, err
}

const (
	// cleanTimeout limits one call of clean; a call that takes longer deletes nothing. cleanRows limits its
	// work for that reason. It is more than one copy publishes in a minute, with one request after the other.
	cleanTimeout = 30 * time.Second
	cleanRows    = 100_000
	parkTimeout  = 5 * time.Second
)

// clean deletes rows that were published, up to the position upTo, and that are older than keep: at most the
// oldest cleanRows of them. It blocks until that is done or cleanTimeout has passed. Any process may call it at
// any time, with any position that was ever stored, because published rows stay published.
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

// park marks a row that could not be published, so that clean does not delete it.
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
