//go:build unix

package pg_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
	states "github.com/goverse/goverse/cluster/objects/state/postgres"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// Behind a pgbouncer that pools transactions, statements that pgx has prepared are missing on the server's
// connection, or exist there already. Each error names the remedies, and with each remedy nothing fails.
func TestPoolerOfTransactions(t *testing.T) {
	db := pgserver.StartForTest(t)
	url := db.PooledForTest(t, "transaction")
	for i, test := range []struct {
		options string
		fails   bool
	}{
		{"", true},
		{"&default_query_exec_mode=cache_describe", false},
		{"&default_query_exec_mode=exec", false},
		{"&default_query_exec_mode=simple_protocol", false},
	} {
		pool, err := pgxpool.New(t.Context(), url+"&pool_max_conns=8"+test.options)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		table := fmt.Sprint("objects_", i)
		require.NoError(t, states.CreateTables(t.Context(), pool, table))
		store, err := states.New(states.Config{DB: pool, Table: table})
		require.NoError(t, err)
		var mu sync.Mutex
		done, failed := 0, 0
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for n := range 20 {
					err := increment(t.Context(), store, object{fmt.Sprint(worker, "-", n)})
					mu.Lock()
					if done++; err != nil {
						failed++
						assert.ErrorContains(t, err, "default_query_exec_mode=cache_describe")
						assert.NotContains(t, err.Error(), "\n")
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		t.Logf("%q: %d of %d failed", test.options, failed, done)
		assert.Equal(t, test.fails, failed > 0, test.options)
	}
}

func increment(ctx context.Context, store *states.Store, o object) error {
	s, err := state.Load(ctx, store, o, &wrapperspb.Int64Value{})
	if err != nil {
		return err
	}
	_, err = state.Do(ctx, s, "id", func(context.Context) (*wrapperspb.Int64Value, error) {
		s.Value().Value++
		return s.Value(), nil
	})
	tx := store.InTx(ctx, s, func(ctx context.Context, _ pgx.Tx) error {
		s.Value().Value++
		return s.Save(ctx)
	})
	if err != nil {
		return err
	}
	return tx
}
