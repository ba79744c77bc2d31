//go:build unix

package pgnode_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
)

// Tools read and record without a node.
func TestToolsOnTheLog(t *testing.T) {
	schema := newSchema(t)
	db, ctx := newPool(t, shared.URL()), patient(t)
	_, err := pgnode.RecordEvent(ctx, db, schema, event.Event{Type: "processor_paused"})
	require.ErrorIs(t, err, pgnode.ErrNoTables)
	_, _, err = pgnode.ListEvents(ctx, db, schema, event.Query{})
	require.ErrorIs(t, err, pgnode.ErrNoTables)
	_, err = pgnode.Read(ctx, db, schema)
	require.ErrorIs(t, err, pgnode.ErrNoTables)
	require.ErrorIs(t, pgnode.FollowEvents(ctx, db, schema, 0, nil), pgnode.ErrNoTables)

	_, err = db.Exec(ctx, pgsession.SchemaSQL(schema))
	require.NoError(t, err)
	require.NoError(t, pgnode.CreateTables(ctx, db, schema))
	require.NoError(t, pgnode.CreateTables(ctx, db, schema), "a second time")

	e := event.Event{ID: "one", Type: "processor_paused", Node: "a\x00\xff", Reason: strings.Repeat("x", 10000), Token: 7,
		Seconds: 1.5, Peer: "b", RecordedBy: "tool", Data: json.RawMessage(`{"name":"outbox","n":"\u0000"}`)}
	seq, err := pgnode.RecordEvent(ctx, db, schema, e)
	require.NoError(t, err)
	require.EqualValues(t, 1, seq)
	again, err := pgnode.RecordEvent(ctx, db, schema, e)
	require.NoError(t, err)
	require.Zero(t, again, "it is recorded once")
	found, more, err := pgnode.ListEvents(ctx, db, schema, event.Query{})
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, found, 1)
	require.Less(t, len(found[0].Reason), 5000)
	require.WithinDuration(t, time.Now(), found[0].Time, time.Minute)
	e.Seq, e.Time, e.Reason, e.Node = 1, found[0].Time, found[0].Reason, "a\uFFFD\uFFFD"
	require.Equal(t, e, found[0])

	for _, bad := range []event.Event{{}, {Type: "Bad"}, {Type: "a b"}, {Type: event.Type(strings.Repeat("a", 65))},
		{Type: "app_x", Data: json.RawMessage("{")}, {Type: "app_x", Data: json.RawMessage(`"` +
			strings.Repeat("x", 1<<10) + `"`)}} {
		_, err := pgnode.RecordEvent(ctx, db, schema, bad)
		require.ErrorIs(t, err, cluster.ErrBadEvent)
	}
	for i := range 3 {
		_, err := pgnode.RecordEvent(ctx, db, schema, event.Event{Type: "app_x", Data: json.RawMessage(fmt.Sprint(i))})
		require.NoError(t, err)
	}
	found, more, err = pgnode.ListEvents(ctx, db, schema, event.Query{Limit: 2, Types: []event.Type{"app_x"}})
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []string{"1", "2"}, dataOf(found))
	found, _, err = pgnode.ListEvents(ctx, db, schema, event.Query{After: 2, Since: time.Now().Add(-time.Hour)})
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2"}, dataOf(found))
	found, _, err = pgnode.ListEvents(ctx, db, schema, event.Query{Since: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.Empty(t, found)
}

func dataOf(events []event.Event) (data []string) {
	for _, e := range events {
		data = append(data, string(e.Data))
	}
	return data
}

// Ten transactions at a time record events and stay open for a while. A follower receives each event once, in the order
// of Seq.
func TestFollowersLoseNoEvent(t *testing.T) {
	const writers, each = 10, 20
	schema := newSchema(t)
	db, ctx := newPool(t, shared.URL()), patient(t)
	require.NoError(t, pgnode.CreateTables(ctx, db, schema))
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				e := event.Event{Type: "app_x", Data: json.RawMessage(fmt.Sprint(w*each + i))}
				tx, err := db.Begin(ctx)
				if err == nil {
					_, err = pgnode.RecordEvent(ctx, tx, schema, e)
				}
				if err == nil {
					_, err = tx.Exec(ctx, "SELECT pg_sleep(0.002)")
				}
				if err == nil {
					err = tx.Commit(ctx)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	defer writing.Wait()
	errAll := errors.New("all are here")
	seen, last := map[string]bool{}, int64(0)
	follower := newPool(t, shared.URL())
	err := pgnode.FollowEvents(ctx, follower, schema, 0, func(e event.Event) error {
		require.Equal(t, last+1, e.Seq)
		require.False(t, seen[string(e.Data)])
		last, seen[string(e.Data)] = e.Seq, true
		if len(seen) == writers*each {
			return errAll
		}
		return nil
	})
	require.ErrorIs(t, err, errAll)
}

// Without a pool the log is polled. The end of the context is no error.
func TestFollowWithoutNotifications(t *testing.T) {
	schema := newSchema(t)
	db, ctx := newPool(t, shared.URL()), patient(t)
	require.NoError(t, pgnode.CreateTables(ctx, db, schema))
	conn, err := newPool(t, shared.URL()).Acquire(ctx)
	require.NoError(t, err)
	defer conn.Release()
	following, stop := context.WithCancel(ctx)
	defer stop()
	_, err = pgnode.RecordEvent(ctx, db, schema, event.Event{Type: "app_first"})
	require.NoError(t, err)
	var types []event.Type
	err = pgnode.FollowEvents(following, conn, schema, 0, func(e event.Event) error {
		if types = append(types, e.Type); len(types) == 2 {
			stop()
			return nil
		}
		_, err := pgnode.RecordEvent(ctx, db, schema, event.Event{Type: "app_second"})
		return err
	})
	require.NoError(t, err)
	require.Equal(t, []event.Type{"app_first", "app_second"}, types)
}

// Programs' events displace none of Goverse's own below 500.
func TestTheLogIsBounded(t *testing.T) {
	schema := newSchema(t)
	db, ctx := newPool(t, shared.URL()), patient(t)
	require.NoError(t, pgnode.CreateTables(ctx, db, schema))
	record := func(typ string, n int) {
		t.Helper()
		_, err := db.Exec(ctx, fmt.Sprintf(`SELECT count("%s".record_event(gen_random_uuid()::text, $1, null, '', 0, '', '',
			0, null, '')) FROM generate_series(1, $2)`, schema), typ, n)
		require.NoError(t, err)
	}
	count := func(where string) (n int) {
		t.Helper()
		require.NoError(t, db.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM "%s".event WHERE %s`, schema, where)).Scan(&n))
		return n
	}
	_, err := pgnode.RecordEvent(ctx, db, schema, event.Event{Type: "node_joined", Time: time.Now().AddDate(0, 0, -8)})
	require.NoError(t, err)
	require.Equal(t, 1, count("type = 'node_joined'"))
	record("node_lost", 450)
	require.Zero(t, count("type = 'node_joined'"), "it was older than a week")
	record("app_noise", 1500)
	require.Equal(t, 450, count("type = 'node_lost'"))
	require.LessOrEqual(t, count("type = 'app_noise'"), 520)
	record("node_left", 700)
	require.LessOrEqual(t, count("true"), 1020)
	require.Equal(t, 700, count("type = 'node_left'"))
}
