//go:build unix

package pg_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	automations "github.com/goverse/goverse/cluster/automation/postgres"
	electors "github.com/goverse/goverse/cluster/elector/postgres"
	"github.com/goverse/goverse/cluster/internal/pg"
	objects "github.com/goverse/goverse/cluster/objects/state/postgres"
	processors "github.com/goverse/goverse/cluster/processor/postgres"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// createAll calls each function that creates tables in the first schema of the search path.
func createAll(ctx context.Context, t *testing.T, db *pgxpool.Pool) map[string]error {
	t.Helper()
	checkpoint, err := processors.New(processors.Config{DB: db})
	require.NoError(t, err)
	source, err := automations.NewSource(automations.Config[int]{DB: db, Table: "job", Key: "id", Where: "true",
		Select: "id", Scan: pgx.RowTo[int], Done: "done = true"})
	require.NoError(t, err)
	return map[string]error{"checkpoints": checkpoint.CreateTables(ctx), "failures": source.CreateTables(ctx),
		"objects": objects.CreateTables(ctx, db, ""), "leases": electors.CreateTable(ctx, db, nil)}
}

// A role that may create nothing works with the tables that an administrator's program has made, however often it asks
// for them.
func TestTablesOfAnAdministrator(t *testing.T) {
	server := pgserver.StartForTest(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func(url string) *pgxpool.Pool {
		pool, err := pgxpool.New(ctx, url)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	admin := connect(server.URL())
	_, err := admin.Exec(ctx, "CREATE ROLE app LOGIN; CREATE TABLE job (id int, done bool)")
	require.NoError(t, err)
	app := connect(strings.Replace(server.URL(), "postgres@", "app@", 1))
	for of, err := range createAll(ctx, t, app) {
		require.Equal(t, pg.CodeNoRight, pg.CodeOf(err), "%s: %v", of, err)
	}
	for of, err := range createAll(ctx, t, admin) {
		require.NoError(t, err, of)
	}
	_, err = admin.Exec(ctx, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app")
	require.NoError(t, err)
	for of, err := range createAll(ctx, t, app) {
		require.NoError(t, err, of)
	}
	// A table of an earlier release is one that is missing.
	_, err = admin.Exec(ctx, "ALTER TABLE goverse_checkpoints DROP COLUMN replay, DROP COLUMN claims")
	require.NoError(t, err)
	require.Error(t, createAll(ctx, t, app)["checkpoints"])
	require.NoError(t, createAll(ctx, t, admin)["checkpoints"])
	require.NoError(t, createAll(ctx, t, app)["checkpoints"])
}
