//go:build linux || darwin || freebsd || openbsd || dragonfly

package supervise

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// holdInPostgres returns a claim that holds a lock or leads, and a connection to its database.
func holdInPostgres(t *testing.T, cfg Config) (*claim, *heldClaim, *pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	db := pgserver.StartForTest(t)
	conn, err := pgx.Connect(ctx, db.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	cfg.Postgres, cfg.TTL = pgsession.Config{URL: db.URL()}, 20*time.Second
	c, err := newPostgresClaim(ctx, cfg.withDefaults())
	require.NoError(t, err)
	t.Cleanup(c.close)
	h, err := c.acquire(ctx)
	require.NoError(t, err)
	return c, h, conn
}

// endConnection ends the connection that keeps a session.
func endConnection(t *testing.T, conn *pgx.Conn, session int64) {
	t.Helper()
	_, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND
		classid = ($1::bigint >> 32)::oid AND objid = ($1::bigint & 4294967295)::oid`, session)
	require.NoError(t, err)
}

// A session that was lost is given up for the others when nothing of a command is left, and no command starts under it
// after that, although its deadline is far.
func TestNothingStartsUnderALostSession(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Lock: "it"}, {Election: "it"}} {
		c, h, conn := holdInPostgres(t, cfg)
		stands := func() (stands bool) {
			require.NoError(t, conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM goverse.session WHERE id = $1)",
				h.session.Number()).Scan(&stands))
			return stands
		}
		require.Equal(t, h.session.Number(), h.number)
		ended := c.beginCommand()
		require.Greater(t, h.session.TimeLeft(), 10*time.Second)
		endConnection(t, conn, h.session.Number())
		require.Eventually(t, func() bool { return c.store.session() == nil }, time.Minute, time.Millisecond)
		_, left := h.session.(pgHolderSession).Renewal()
		require.Greater(t, left, time.Second)
		require.Zero(t, h.session.TimeLeft())
		h.ctx = context.Background() // as if its end had not arrived
		_, ok := guardDeadline(h)
		require.False(t, ok)
		for range 100 { // enough time to give it up
			require.True(t, stands(), "it was given up too early")
		}
		ended()
		h.declareIdle()
		require.Eventually(t, func() bool { return !stands() }, time.Minute, time.Millisecond)
		_, ok = guardDeadline(h)
		require.False(t, ok)
	}
}

// staleStore returns first what is held under a session that was lost, as if the end of its context had not arrived.
type staleStore struct {
	store
	stale *heldClaim
}

func (s *staleStore) acquire(ctx context.Context) (*heldClaim, error) {
	if h := s.stale; h != nil {
		s.stale = nil
		return h, nil
	}
	return s.store.acquire(ctx)
}

// What is held under one session is not taken for held under the next one.
func TestHeldBelongsToItsSession(t *testing.T) {
	t.Parallel()
	c, h, conn := holdInPostgres(t, Config{Lock: "it"})
	endConnection(t, conn, h.number)
	require.Eventually(t, func() bool {
		s := c.store.session()
		return s != nil && s.Number() != h.number
	}, time.Minute, time.Millisecond)
	h.ctx = context.Background()
	c.store = &staleStore{c.store, h}
	again, err := c.acquire(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, h.token, again.token)
	require.Equal(t, again.session.Number(), again.number)
}

// A URL with settings of a pool opens a session, and serves to ask for the queue.
func TestURLWithSettingsOfAPool(t *testing.T) {
	t.Parallel()
	c, h, _ := holdInPostgres(t, Config{Lock: "it"})
	at, err := url.Parse(c.cfg.Postgres.URL)
	require.NoError(t, err)
	query := at.Query()
	query.Set("pool_max_conns", "3")
	at.RawQuery = query.Encode()
	next := c.cfg
	next.Postgres.URL, next.Env = at.String(), []string{keysEnv + "=" + h.keys}
	nested, err := next.waitsForItself(t.Context())
	require.NoError(t, err)
	require.True(t, nested)
	first, err := (&pgStore{cfg: next}).readFirst(t.Context())
	require.NoError(t, err)
	require.Equal(t, firstEntry{exists: true, owner: ownerName(), own: true}, first)
}
