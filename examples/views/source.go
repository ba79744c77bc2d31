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

// events are the table as a source, for all views of this process. A position is xid/id. The
// body is decoded by who handles it: what cannot be decoded is then parked, where here it would
// hold up all that comes after.
type events struct {
	processor.Signal
	db *pgxpool.Pool
}

// readable are the events that may be shown: nothing that comes before them can appear later.
const readable = `select xid::text || '/' || id, body from events
where (xid, id) > ($1::text::xid8, $2::text::bigint) and xid < pg_snapshot_xmin(pg_current_snapshot())
order by xid, id limit $3`

// Read implements processor.Source.
func (s *events) Read(ctx context.Context, after processor.Position, limit int) ([]processor.Event[json.RawMessage], error) {
	xid, id, err := split(after)
	if err != nil {
		return nil, err
	}
	rows, err := s.db.Query(ctx, readable, xid, id, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e processor.Event[json.RawMessage], err error) {
		err = row.Scan(&e.Position, &e.Value)
		return e, err
	})
}

// Lag implements processor.Lagger. It counts also what cannot be shown yet.
func (s *events) Lag(ctx context.Context, after processor.Position) (n int64, err error) {
	xid, id, err := split(after)
	if err != nil {
		return 0, err
	}
	err = s.db.QueryRow(ctx, "select count(*) from events where (xid, id) > ($1::text::xid8, $2::text::bigint)", xid, id).Scan(&n)
	return n, err
}

// listen has the views read as soon as a transaction has written events, until ctx ends.
// Without a connection it tries again; meanwhile they poll.
func (s *events) listen(ctx context.Context) {
	for ctx.Err() == nil {
		_ = s.listenOnce(ctx) // reading has the same trouble, and says so
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func (s *events) listenOnce(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, s.db.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "listen events"); err != nil {
		return err
	}
	for {
		s.Notify() // also the first time: something may have come before
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
		return "", "", fmt.Errorf("position %q is not of these events: it says xid/id; does another program use the checkpoint's name?", at)
	}
	return xid, id, nil
}
