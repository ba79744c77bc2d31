package pgnode

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/eventlog"
	"github.com/goverse/goverse/internal/wait"
)

// eventsChannel is the channel on which new events are notified.
const eventsChannel = "goverse_events"

const (
	// eventsPollEvery is the time between two reads of the log while nothing is notified.
	eventsPollEvery = time.Second
	// eventsPause is the least time between two reads of the log: any user of the database can notify.
	eventsPause = 20 * time.Millisecond
	// eventsPage limits the events of one read while following.
	eventsPage = 200
	// maxListed limits the events of a list. The log has fewer, unless another program has written the table.
	maxListed = 10000
)

// eventsSQL reads events after $1. Any program may have written the rows, so texts are cut, data that no node can have
// recorded is left out, and times and numbers have a form in JSON.
const eventsSQL = `SELECT seq, left(id, 1024), left(type, 64), least(time, '9999-12-30Z'), left(node, 1024), token,
		left(reason, 8192), left(peer, 1024), CASE WHEN abs(seconds) < 'infinity' THEN seconds ELSE 0 END,
		CASE WHEN octet_length(data::text) <= 65536 THEN data::text END, left(recorded_by, 1024)
	FROM {{schema}}.event WHERE seq > $1 AND time >= $2 AND ($3::text[] IS NULL OR type = ANY ($3))`

// ListEvents reads the event log in a schema, "" for the default one, oldest first; more reports whether q.Limit has
// left out older events. It needs no node. It blocks until PostgreSQL has answered, or ctx ends. Errors are
// [ErrNoTables], PostgreSQL's and ctx's.
func ListEvents(ctx context.Context, db Querier, schema string, q event.Query) (found []event.Event, more bool,
	err error) {
	if err := requireTables(ctx, db, schema); err != nil {
		return nil, false, fmt.Errorf("read the event log: %w", err)
	}
	return listEvents(ctx, db, schema, q)
}

func listEvents(ctx context.Context, db Querier, schema string, q event.Query) (found []event.Event, more bool,
	err error) {
	limit := maxListed + 1
	if q.Limit > 0 {
		limit = min(q.Limit, maxListed) + 1
	}
	// The newest by time, as in etcd: an event can be recorded late.
	found, err = queryEvents(ctx, db, in(schema, eventsSQL)+" ORDER BY time DESC, seq DESC LIMIT $4", q, limit)
	if err != nil {
		return nil, false, err
	}
	if more = len(found) == limit; more {
		found = found[:limit-1]
	}
	slices.Reverse(found)
	return found, more, nil
}

// earliest is a time before all events.
var earliest = time.Unix(0, 0)

func queryEvents(ctx context.Context, db Querier, sql string, q event.Query, limit int) ([]event.Event, error) {
	since := q.Since
	if since.Before(earliest) {
		since = earliest
	}
	var types []string
	for _, t := range q.Types {
		types = append(types, string(t))
	}
	rows, err := db.Query(ctx, sql, q.After, since, types, limit)
	if err != nil {
		return nil, fmt.Errorf("read the event log: %w", err)
	}
	found := []event.Event{}
	var e event.Event
	var data *string
	_, err = pgx.ForEachRow(rows, []any{&e.Seq, &e.ID, &e.Type, &e.Time, &e.Node, &e.Token, &e.Reason, &e.Peer, &e.Seconds,
		&data, &e.RecordedBy}, func() error {
		e.Data = nil
		if data != nil {
			e.Data = json.RawMessage(*data)
		}
		e.Time = e.Time.UTC()
		found = append(found, unpackRequest(e))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the event log: %w", err)
	}
	return found, nil
}

// nextEvents reads the events after seq in the order of seq, at most eventsPage. If the log ends before seq, because
// another database has taken its place, it reads from the beginning.
func nextEvents(ctx context.Context, db Querier, schema string, seq int64) ([]event.Event, error) {
	read := func(after int64) ([]event.Event, error) {
		return queryEvents(ctx, db, in(schema, eventsSQL)+" ORDER BY seq LIMIT $4", event.Query{After: after}, eventsPage)
	}
	found, err := read(seq)
	if err != nil || len(found) > 0 || seq == 0 {
		return found, err
	}
	var last int64
	err = db.QueryRow(ctx, in(schema, "SELECT coalesce(max(event_seq), 0) FROM {{schema}}.node_setting")).Scan(&last)
	if err != nil {
		return nil, fmt.Errorf("read the event log: %w", err)
	}
	if last < seq {
		return read(0)
	}
	return nil, nil
}

// FollowEvents calls fn with every event that was recorded in the log of a schema after seq (see event.Event.Seq), then
// with new events, in the order in which they were recorded. A seq of 0 starts from the beginning. It needs no node. If
// db is a *pgxpool.Pool, one of its connections receives notifications of new events; otherwise, and while that fails,
// FollowEvents reads once a second. It blocks until ctx ends, and returns nil, or until fn returns an error, which it
// returns. Errors of the first read are returned, too: [ErrNoTables] and PostgreSQL's. Later it retries.
func FollowEvents(ctx context.Context, db Querier, schema string, seq int64, fn func(event.Event) error) error {
	if err := requireTables(ctx, db, schema); err != nil {
		return fmt.Errorf("read the event log: %w", err)
	}
	changed := wait.NewSignal()
	if pool, ok := db.(pg.Acquirer); ok {
		listening, stop := context.WithCancel(ctx)
		group := wait.NewGroup()
		defer group.Close(context.Canceled)
		defer stop()
		group.Go(func(context.Context) { listen(listening, pool, changed) })
	}
	read := func(ctx context.Context, seq int64) ([]event.Event, error) { return nextEvents(ctx, db, schema, seq) }
	return followEvents(ctx, seq, changed, read, fn)
}

// listenRetry are the pauses before another attempt to listen.
var listenRetry = backoff.Policy{First: 100 * time.Millisecond, Last: 5 * time.Second}

// listen signals new events until ctx ends.
func listen(ctx context.Context, pool pg.Acquirer, changed wait.Signal) {
	retry := backoff.Backoff{Policy: listenRetry}
	s := pg.Subscription{Channel: eventsChannel, Timeout: 5 * time.Second,
		Begun: func() { retry.Reset(); changed.Send() }, Notify: func(string) { changed.Send() }}
	for ctx.Err() == nil {
		_ = s.Listen(ctx, pool) // the log is read once a second meanwhile
		wait.For(ctx, retry.Next())
	}
}

// followEvents calls fn with the events that read returns, again and again: after changed, at most each eventsPause,
// and once in eventsPollEvery. It returns the error of the first read, if that fails, and fn's.
func followEvents(ctx context.Context, seq int64, changed <-chan struct{},
	read func(ctx context.Context, seq int64) ([]event.Event, error), fn func(event.Event) error) error {
	for first := true; ctx.Err() == nil; first = false {
		found, err := read(ctx, seq)
		if err != nil && first && ctx.Err() == nil {
			return err
		}
		for _, e := range found {
			if err := fn(e); err != nil {
				return err
			}
			seq = e.Seq
		}
		if len(found) == eventsPage {
			continue
		}
		wait.For(ctx, eventsPause)
		poll, cancel := context.WithTimeout(ctx, eventsPollEvery)
		_ = wait.UntilClosed(poll, changed)
		cancel()
	}
	return nil
}

// RecordEvent records an event in the log of a schema, "" for the default one, unless there is one with its ID. It is
// for tools that manage a cluster from outside: nodes record through [Events.Record], which limits their rate. The
// event needs a Type of lower-case letters and underscores. An ID is made if there is none; a Time of zero means the
// server's present time. Data may have 1 KiB as JSON; a longer Reason is shortened. Seq and Revision are ignored.
//
// RecordEvent can be part of a transaction, which holds up other events until it ends. It returns the event's Seq, 0
// if it was in the log before. It blocks until PostgreSQL has answered, or ctx ends. Errors match cluster.ErrBadEvent
// or [ErrNoTables], or are PostgreSQL's or ctx's; ErrNoTables does not abort a transaction.
func RecordEvent(ctx context.Context, db Querier, schema string, e event.Event) (seq int64, err error) {
	if err := eventlog.CheckEvent(e.Type, e.Data); err != nil {
		return 0, err
	}
	if err := requireTables(ctx, db, schema); err != nil {
		return 0, fmt.Errorf("record the event %s: %w", e.Type, err)
	}
	return recordEvent(ctx, db, schema, e)
}

// recordEvent records an event that has been checked.
func recordEvent(ctx context.Context, db Querier, schema string, e event.Event) (seq int64, err error) {
	if e.ID == "" {
		e.ID = string(e.Type) + "-" + strings.ToLower(rand.Text())
	}
	var at *time.Time
	if !e.Time.IsZero() {
		at = &e.Time
	}
	var data *string
	if e = packRequest(e); len(e.Data) > 0 {
		text := strings.ToValidUTF8(string(e.Data), "\uFFFD")
		data = &text
	}
	err = db.QueryRow(ctx, in(schema, "SELECT {{schema}}.record_event($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
		storable(e.ID), string(e.Type), at, storable(e.Node), e.Token, eventlog.CutReason(storable(e.Reason)),
		storable(e.Peer), e.Seconds, data, storable(e.RecordedBy)).Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("record the event %s: %w", e.Type, err)
	}
	return seq, nil
}

// storable returns text without the bytes that PostgreSQL does not store.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
