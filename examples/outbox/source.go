package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/goverse/goverse/cluster/processor"
)

// message is one row of the outbox.
type message struct {
	body json.RawMessage
}

// outbox is the table as a processor's source. A position is xid/id; schema.sql says why.
type outbox struct {
	processor.Signal
	db *pgxpool.Pool
}

// readable are the rows that may be shown: nothing that comes before them can appear later.
const readable = `select xid::text || '/' || id, body from outbox
where (xid, id) > ($1::text::xid8, $2::text::bigint) and xid < pg_snapshot_xmin(pg_current_snapshot())
order by xid, id limit $3`

// Read implements processor.Source.
func (o *outbox) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[message], error) {
	xid, id, err := split(after)
	if err != nil {
		return nil, err
	}
	rows, err := o.db.Query(ctx, readable, xid, id, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e processor.Event[message], err error) {
		err = row.Scan(&e.Position, &e.Value.body)
		return e, err
	})
}

// Lag implements processor.Lagger. It counts also what cannot be shown yet.
func (o *outbox) Lag(ctx context.Context, after processor.Position) (n int64, err error) {
	xid, id, err := split(after)
	if err != nil {
		return 0, err
	}
	err = o.db.QueryRow(ctx, "select count(*) from outbox where (xid, id) > ($1::text::xid8, $2::text::bigint)", xid, id).Scan(&n)
	return n, err
}

// clean deletes what was published, up to the position, and is older than keep. It may be
// called by any process at any time with a position that was ever stored: what is published
// stays published.
func (o *outbox) clean(ctx context.Context, upTo processor.Position, keep time.Duration) (int64, error) {
	xid, id, err := split(upTo)
	if err != nil {
		return 0, err
	}
	tag, err := o.db.Exec(ctx, `delete from outbox
where (xid, id) <= ($1::text::xid8, $2::text::bigint) and created < now() - $3::interval and parked is null`, xid, id, keep)
	return tag.RowsAffected(), err
}

// park marks a row that is not published, so that it stays.
func (o *outbox) park(ctx context.Context, e processor.Event[message], why error) error {
	xid, id, err := split(e.Position)
	if err != nil {
		return err
	}
	_, err = o.db.Exec(ctx, "update outbox set parked = $3 where xid = $1::text::xid8 and id = $2::text::bigint", xid, id, why.Error())
	return err
}

// listen has the publisher read as soon as a transaction has written to the outbox, until ctx
// ends. Without a connection it tries again; meanwhile the processor polls.
func (o *outbox) listen(ctx context.Context) {
	for ctx.Err() == nil {
		_ = o.listenOnce(ctx) // the processor's reading has the same trouble, and says so
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func (o *outbox) listenOnce(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, o.db.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "listen outbox"); err != nil {
		return err
	}
	for {
		o.Notify() // also the first time: something may have come before
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

func split(at processor.Position) (xid, id string, err error) {
	if at == "" {
		return "0", "0", nil
	}
	xid, id, ok := strings.Cut(string(at), "/")
	if !ok {
		return "", "", fmt.Errorf("position %q is not of an outbox: it says xid/id; does another program use the checkpoint's name?", at)
	}
	return xid, id, nil
}
