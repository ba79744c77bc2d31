//go:build unix

package integration

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// A process that holds a lock and writes under it is paused for longer than its TTL. Another one acquires the
// lock and writes. The first one resumes and continues to write: etcd and PostgreSQL refuse it by its token,
// its lock is not valid, and its context has ended.
func TestHolderPausedPastItsTTL(t *testing.T) {
	t.Parallel()
	db := pgserver.StartForTest(t)
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		etcd, sql := pausedHolder(t, flavour, db, false)
		require.Zero(t, stale(etcd), "of %d", len(etcd))
		require.Zero(t, stale(sql), "of %d", len(sql))
	})
	// The judge detects stale writes if nothing refuses them.
	t.Run("unfenced", func(t *testing.T) {
		etcd, sql := pausedHolder(t, procs.Etcd37, db, true)
		require.NotZero(t, stale(etcd), "of %d", len(etcd))
		require.NotZero(t, stale(sql), "of %d", len(sql))
	})
}

// stale counts the tokens that are smaller than an earlier one.
func stale(tokens []int64) (count int) {
	newest := int64(0)
	for _, token := range tokens {
		if token < newest {
			count++
		}
		newest = max(newest, token)
	}
	return count
}

// pausedHolder pauses a holder and returns the tokens of the writes to etcd and to PostgreSQL, in the order of
// each store.
func pausedHolder(t *testing.T, flavour procs.Flavour, db *pgserver.Server, unfenced bool) (etcd, sql []int64) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := kit.StartEtcd(t, flavour)
	client := server.Client(t, "", "")
	conn, err := pgx.Connect(ctx, db.URL())
	require.NoError(t, err)
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "DROP TABLE IF EXISTS guarded, written; "+schema)
	require.NoError(t, err)
	before, err := client.Get(ctx, writtenKey)
	require.NoError(t, err)

	var holders []*holderProcess
	for _, address := range kit.Addresses(t, 2) {
		holders = append(holders, startHolder(t, holderConfig{Advertise: address, Etcd: server.Endpoint, SQL: db.URL(),
			TTL: int(ttl / time.Second), Unfenced: unfenced}))
	}
	first, second := holders[0], holders[1]
	first.ask(askAcquire)
	token := first.answer().Token
	wrote := func(h *holderProcess, where string) {
		procs.Await(t, patience, where+" has written to both", func() error {
			if st := h.state(); st.Accepted["etcd"] < 10 || st.Accepted["sql"] < 10 {
				return errNotYet
			}
			return nil
		})
	}
	wrote(first, "the first")
	require.True(t, first.state().Valid)
	second.ask(askAcquire)

	frozen, err := first.Freeze()
	require.NoError(t, err)
	st := second.answer()
	t.Logf("the lock changed hands %v after the pause began", time.Since(frozen).Round(time.Millisecond))
	require.Greater(t, st.Token, token)
	wrote(second, "the second")
	_, err = first.Thaw()
	require.NoError(t, err)

	if unfenced {
		had := first.state()
		procs.Await(t, patience, "the first writes on", func() error {
			if st := first.state(); st.Accepted["etcd"] <= had.Accepted["etcd"] || st.Accepted["sql"] <= had.Accepted["sql"] {
				return errNotYet
			}
			return nil
		})
	} else {
		procs.Await(t, patience, "the first is refused", func() error {
			if st := first.state(); st.Refused["etcd"] == 0 || st.Refused["sql"] == 0 {
				return errNotYet
			}
			return nil
		})
	}
	procs.Await(t, patience, "the first knows that it lost the lock", func() error {
		if st := first.state(); st.Ended == "" {
			return errNotYet
		}
		return nil
	})
	st = first.state()
	require.False(t, st.Valid)
	t.Logf("the first: %+v", st)
	first.ask(askRelease)
	st = first.answer()
	require.True(t, st.Lost, "%+v", st)
	require.True(t, second.state().Valid)
	second.ask(askRelease)
	st = second.answer()
	require.Empty(t, st.ReleaseOf)
	require.False(t, st.Valid)
	return etcdTokens(ctx, t, client, before.Header.Revision+1), sqlTokens(ctx, t, conn)
}

// etcdTokens returns the tokens of the writes of the key, in etcd's order.
func etcdTokens(ctx context.Context, t *testing.T, client *clientv3.Client, from int64) (tokens []int64) {
	now, err := client.Get(ctx, writtenKey)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range client.Watch(ctx, writtenKey, clientv3.WithRev(from)) {
		require.NoError(t, resp.Err())
		for _, ev := range resp.Events {
			token, err := strconv.ParseInt(string(ev.Kv.Value), 10, 64)
			require.NoError(t, err)
			tokens = append(tokens, token)
			if ev.Kv.ModRevision >= now.Kvs[0].ModRevision {
				return tokens
			}
		}
	}
	return tokens
}

// sqlTokens returns the tokens of the writes of the row, in their order.
func sqlTokens(ctx context.Context, t *testing.T, conn *pgx.Conn) []int64 {
	rows, err := conn.Query(ctx, "SELECT token FROM written ORDER BY n")
	require.NoError(t, err)
	tokens, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	return tokens
}
