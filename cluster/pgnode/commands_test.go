//go:build unix

package pgnode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/pgnode"
	"github.com/goverse/goverse/cluster/pgsession"
)

// Operators' requests keep their fields, and to a fifth of the log.
func TestRequestsInTheLog(t *testing.T) {
	schema := newSchema(t)
	db, ctx := newPool(t, shared.URL()), patient(t)
	_, err := db.Exec(ctx, pgsession.SchemaSQL(schema))
	require.NoError(t, err)
	require.NoError(t, pgnode.CreateTables(ctx, db, schema))
	at := time.Now().UTC().Truncate(time.Millisecond)
	joined := event.Event{ID: "node_joined-1", Type: event.NodeJoined, Time: at.Add(-time.Second), Node: "a"}
	joined.Seq, err = pgnode.RecordEvent(ctx, db, schema, joined)
	require.NoError(t, err)
	const n = 239 // the 240th event prunes
	var last event.Event
	for i := range n {
		last = event.Event{ID: fmt.Sprintf("processor_rewound-%d", i), Type: event.ProcessorRewound,
			Time: at.Add(time.Duration(i) * time.Millisecond), Processor: "a\x00b", By: "ann@host", Reason: "again", From: "7",
			Position: "5"}
		last.Seq, err = pgnode.RecordEvent(ctx, db, schema, last)
		require.NoError(t, err)
	}
	found, _, err := pgnode.ListEvents(ctx, db, schema, event.Query{})
	require.NoError(t, err)
	require.Len(t, found, 201)
	require.Equal(t, joined, found[0])
	last.Processor = "a\uFFFDb"
	require.Equal(t, last, found[200])
}
