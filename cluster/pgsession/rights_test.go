//go:build unix

package pgsession_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	elections "github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/lock"
	locks "github.com/goverse/goverse/cluster/lock/postgres"
	effects "github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// grants returns the statements of the guide for a role without rights.
func grants(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/guides/postgres.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)```sql\n(GRANT .*?)```").FindSubmatch(guide)
	require.NotNil(t, found)
	return string(found[1])
}

// A role that may create nothing uses locks, elections and effects once an administrator has done what the guide says,
// also where PUBLIC may execute no function.
func TestRoleWithoutRights(t *testing.T) {
	db := pgserver.StartForTest(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	admin, err := pgx.Connect(ctx, db.URL())
	require.NoError(t, err)
	exec := func(sql string) {
		t.Helper()
		_, err := admin.Exec(ctx, sql)
		require.NoError(t, err)
	}
	exec(`CREATE ROLE app LOGIN; REVOKE ALL ON DATABASE postgres FROM PUBLIC; GRANT CONNECT ON DATABASE postgres TO app;
		REVOKE ALL ON SCHEMA public FROM PUBLIC; ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`)
	url := strings.Replace(db.URL(), "postgres@", "app@", 1)
	cfg := pgsession.Config{URL: url, Deadline: 10 * time.Second}
	_, err = pgsession.Open(ctx, cfg)
	require.ErrorContains(t, err, "run the output of pgsession.SchemaSQL")

	exec(pgsession.SchemaSQL(""))
	exec(effects.SchemaSQL(""))
	_, err = pgsession.Open(ctx, cfg)
	require.ErrorContains(t, err, "permission denied")
	exec(grants(t))
	session, err := pgsession.Open(ctx, cfg)
	require.NoError(t, err)
	pool, err := pgxpool.New(ctx, url)
	require.NoError(t, err)
	defer pool.Close()

	held, err := locks.New(session).Acquire(ctx, "it")
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return locks.Fence(ctx, tx, held) }))
	found, _, err := locks.List(ctx, pool, "", lock.Query{})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, held.Release(ctx))
	candidate, err := elections.New(session).Stand("it")
	require.NoError(t, err)
	require.Eventually(t, candidate.IsLeader, time.Minute, time.Millisecond)
	once, err := effects.New(session, effects.Config{DB: pool})
	require.NoError(t, err)
	require.NoError(t, once.CreateTable(ctx))
	ran, err := once.Once(ctx, "mail", func(context.Context, int64) ([]byte, error) { return nil, nil })
	require.NoError(t, err)
	require.True(t, ran.Ran)
	require.NoError(t, session.Close(ctx))
	require.NoError(t, admin.Close(ctx))
}
