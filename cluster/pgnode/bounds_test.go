//go:build unix

package pgnode_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/internal/test/pace"
)

// A flood of notifications, which any user of the database can send, makes the node read no more often than the pauses
// between two reads permit.
func TestNotificationsAreHints(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{})
	awaitLeader(t, "a", 1, a)
	awaitEvents(t, a, "leader_elected a") // reads that follow from changes are not put off
	db := newPool(t, shared.URL())
	ctx, stop := context.WithCancel(patient(t))
	var flooding sync.WaitGroup
	for range 3 {
		flooding.Go(func() {
			for ctx.Err() == nil {
				_, _ = db.Exec(ctx, `SELECT pg_notify(c, i::text || repeat('x', 1000)) FROM generate_series(1, 30) i,
					unnest(ARRAY['goverse_nodes', 'goverse_events']) c`) // ends with ctx
			}
		})
	}
	defer flooding.Wait()
	defer stop()
	before, began := a.Reads(), time.Now()
	eventually(t, "many notifications arrive", func() bool { return a.Reads() > before+20 })
	require.Greater(t, time.Since(began), 16*pgnode.RefreshPause, "three of these reads may follow from the election")
	require.True(t, a.Status().ClusterReady)
	require.NoError(t, a.Events().Record(patient(t), "app_during", nil))
}

// Notifications that came with the answers to requests do not pile up.
func TestNotificationsAreTakenTogether(t *testing.T) {
	newSchema(t)
	conn, err := pgx.Connect(patient(t), shared.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(patient(t))) }()
	for range 2 {
		_, err = conn.Exec(patient(t), `LISTEN goverse_nodes; LISTEN goverse_events; SELECT pg_notify(c, i::text)
			FROM generate_series(1, 2000) i, unnest(ARRAY['goverse_nodes', 'goverse_events']) c`)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"goverse_nodes", "goverse_events"}, pgnode.TakeNotifications(conn))
		require.Empty(t, pgnode.TakeNotifications(conn))
		require.False(t, conn.IsClosed())
	}
}

// Rows that no node has written neither end the reading of the others, nor are they read at any length.
func TestForeignRows(t *testing.T) {
	schema, meter := newSchema(t), pace.StartMeter(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{Labels: map[string]string{"k": "v"}})
	awaitLeader(t, "a", 1, a)
	require.NoError(t, a.Events().Record(patient(t), "app_x", map[string]string{"k": "v"}))
	db := newPool(t, shared.URL())
	exec := func(sql string) {
		t.Helper()
		_, err := db.Exec(patient(t), fmt.Sprintf(sql, schema))
		require.NoError(t, err)
	}
	for i, labels := range []string{`'[1]'`, `'{"n": 1, "o": {"p": null}, "q": null}'`,
		`jsonb_build_object('k', repeat('x', 1000000))`} {
		exec(fmt.Sprintf(`INSERT INTO "%%[1]s".node (id, session, incarnation, instance, host, url, state, version, labels,
			goverse, heartbeat, created, updated) SELECT 'b%d', id, 1, '', repeat('h', 500000), '', 'odd', '', %s, '',
			'infinity', '-infinity', '20000-01-01' FROM "%%[1]s".session`, i, labels))
	}
	exec(`INSERT INTO "%s".lease VALUES ('other', 'b', 1, 2, '-infinity', 'infinity', '20000-01-01', NULL, '', '')`)
	exec(`SELECT "%s".record_event('odd', 'odd', 'infinity', repeat('n', 500000), 0, repeat('r', 500000), '', 'NaN',
		to_json(repeat('d', 500000)), '')`)
	eventually(t, "it reads on", func() bool { return len(a.Status().Nodes) == 4 && a.Status().Ready })
	found, _, err := a.Events().List(patient(t), event.Query{})
	require.NoError(t, err)
	text, err := json.Marshal(found)
	require.NoError(t, err)
	require.Less(t, len(text), 100000)
	require.Contains(t, string(text), `"data":{"k":"v"}`)
	state, err := pgnode.Read(patient(t), db, schema)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "v"}, state.Nodes[0].Labels)
	require.Equal(t, map[string]string{"n": "1", "o": `{"p": null}`, "q": ""}, state.Nodes[2].Labels)
	require.Nil(t, state.Elections[1].Lease.Ended)
	text, err = json.Marshal(state)
	require.NoError(t, err)
	require.Less(t, len(text), 100000)

	// With more rows than are read, the node finds its own.
	exec(`INSERT INTO "%[1]s".node (id, session, incarnation, instance, host, url, state, version, labels, goverse)
		SELECT '!' || i, s.id, 1, '', '', '', '', '', '{}', '' FROM "%[1]s".session s, generate_series(1, 10000) i`)
	eventually(t, "it has read them", func() bool {
		st := a.Status()
		return len(st.Nodes) == 10000 && (st.Ready || meter.Slowdown() > 2) // reading them may take too long
	})
	require.Contains(t, a.Status().Nodes, "a")
}

// A table that another program has locked holds up records, and not the heartbeats and the view.
func TestALockedTableHoldsUpRecordsOnly(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{})
	awaitLeader(t, "a", 1, a)
	tx, err := newPool(t, shared.URL()).Begin(patient(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(patient(t))) }()
	for _, table := range []string{"node", "lease", "node_setting"} {
		_, err = tx.Exec(patient(t), fmt.Sprintf(`SELECT 1 FROM "%s".%s FOR UPDATE`, schema, table))
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(patient(t), 1500*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Events().Record(ctx, "app_x", nil), context.DeadlineExceeded)
	seen := a.Status().ViewSeen
	eventually(t, "it reads on", func() bool { return a.Status().ViewSeen.After(seen) && a.Status().ClusterReady })
}

// Many requests that wait for a locked row hold up neither the heartbeats nor the view, whatever the deadline of the
// session.
func TestBlockedRequestsLeaveRoomForTheView(t *testing.T) {
	schema, meter := newSchema(t), pace.StartMeter(t)
	a := join(t, shared.URL(), schema, "a", time.Minute, pgnode.Config{})
	awaitLeader(t, "a", 1, a)
	tx, err := newPool(t, shared.URL()).Begin(patient(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(patient(t))) }()
	_, err = tx.Exec(patient(t), fmt.Sprintf(`SELECT 1 FROM "%s".node_setting FOR UPDATE`, schema))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(patient(t))
	var recording sync.WaitGroup
	defer recording.Wait()
	defer stop()
	for range 20 {
		recording.Go(func() { _ = a.Events().Record(ctx, "app_x", nil) }) // ends with ctx
	}
	seen := a.Status().ViewSeen
	for range 4 {
		oldest := time.Duration(0)
		eventually(t, "it reads on", func() bool {
			st := a.Status()
			if st.ViewSeen.After(seen) {
				seen = st.ViewSeen
				return true
			}
			oldest = time.Since(st.ViewSeen)
			return false
		})
		require.Less(t, oldest, meter.Scale(pgnode.StaleAfter), "the age of the view")
	}
}

// A server that takes no writes any more makes the node unready, and its view old.
func TestReadOnly(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{})
	awaitLeader(t, "a", 1, a)
	db := newPool(t, shared.URL())
	rename := func(from, to string) {
		t.Helper()
		_, err := db.Exec(patient(t), fmt.Sprintf(`ALTER TABLE "%s".%s RENAME TO %s`, schema, from, to))
		require.NoError(t, err)
	}
	rename("node", "gone") // its reads fail
	eventually(t, "it is not ready", func() bool { return !a.Status().Ready })
	require.True(t, a.IsLeader(), "no decision reads the rows")
	seen := a.Status().ViewSeen
	a.log.Await(t, "cannot refresh")
	rename("gone", "node")
	eventually(t, "it is ready again", func() bool { return a.Status().Ready && a.Status().ViewSeen.After(seen) })
	a.log.Await(t, "fresh again")
}

// A program's events have the limits that they have on etcd.
func TestRecordHasLimits(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{})
	ctx := patient(t)
	require.ErrorIs(t, a.Events().Record(ctx, "node_lost", nil), cluster.ErrBadEvent)
	require.ErrorIs(t, a.Events().Record(ctx, "app_x", make([]byte, 2000)), cluster.ErrBadEvent)
	began := time.Now()
	require.NoError(t, a.Events().Record(ctx, "app_import", map[string]string{"file": "x"}))
	found, _, err := a.Events().List(ctx, event.Query{Types: []event.Type{"app_import"}})
	require.NoError(t, err)
	require.Equal(t, "a", found[0].Node)
	require.JSONEq(t, `{"file":"x"}`, string(found[0].Data))
	recorded := 1
	for err = nil; err == nil; recorded++ {
		err = a.Events().Record(ctx, "app_x", nil)
	}
	require.ErrorIs(t, err, cluster.ErrEventRate)
	require.GreaterOrEqual(t, recorded, 61, "60, and the one that is refused")
	require.LessOrEqual(t, recorded, 62+int(time.Since(began)/time.Second), "and one more each second")
	eventually(t, "it is among the recent ones", func() bool {
		for _, e := range a.Events().Recent() {
			if e.Type == "app_import" {
				return true
			}
		}
		return false
	})
	failed := errors.New("failed")
	require.Equal(t, failed, a.Events().ForEach(ctx, 0, func(event.Event) error { return failed }))
	stopped := make(chan error, 1)
	go func() { stopped <- a.Events().ForEach(ctx, 0, func(event.Event) error { return nil }) }()
	require.NoError(t, a.Leave(ctx))
	require.ErrorIs(t, <-stopped, pgnode.ErrStopped)
}

// Without a leader for a second, that is recorded once, and so is the end of that time.
func TestNoLeader(t *testing.T) {
	schema := newSchema(t)
	a := join(t, shared.URL(), schema, "a", deadline, pgnode.Config{})
	awaitLeader(t, "a", 1, a)
	o := join(t, shared.URL(), schema, "o", deadline, pgnode.Config{Observer: true})
	o2 := join(t, shared.URL(), schema, "o2", deadline, pgnode.Config{Observer: true})
	require.NoError(t, a.session.Close(patient(t)))
	awaitEvents(t, o2, "leader_lost a", "cluster_degraded ")
	b := join(t, shared.URL(), schema, "b", deadline, pgnode.Config{})
	awaitLeader(t, "b", 3, b, o, o2)
	awaitEvents(t, o, "cluster_degraded ", "leader_elected b", "cluster_recovered b")
	found, _, err := o.Events().List(patient(t), event.Query{Types: []event.Type{event.LeaderLost, event.ClusterDegraded,
		event.ClusterRecovered}})
	require.NoError(t, err)
	for found[0].Type != event.LeaderLost { // the election of a may have taken longer than a second
		found = found[1:]
	}
	require.Len(t, found, 3)
	require.GreaterOrEqual(t, found[2].Seconds, 1.0)
}
