//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/lock/locktest"
	"github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

var owners atomic.Int64

// open opens a session that ends with the test.
func open(t testing.TB, db *pgserver.Server, deadline time.Duration) *pgsession.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := pgsession.Open(ctx, pgsession.Config{URL: db.URL(), Deadline: deadline,
		Owner: fmt.Sprint("process ", owners.Add(1))})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, s.Close(ctx))
	})
	return s
}

func TestConforms(t *testing.T) {
	db := pgserver.StartForTest(t)
	locktest.Run(t, func(t *testing.T) (a, b lock.LockRegistry) {
		return postgres.New(open(t, db, 0)), postgres.New(open(t, db, 0))
	})
}
