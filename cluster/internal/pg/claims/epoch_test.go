//go:build unix

package claims

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// A standby is promoted that lacks even the tables. The process that makes them there does not know of the holder on
// the former primary, and waits for the deadline all the same.
func TestPromotionWithoutTheTables(t *testing.T) {
	pace.Parallel(t)
	r := startReplicated(t, false)
	r.stopReplication(t)
	holder := open(t, r.urls(r.relay.Address()), short)
	held := holder.acquire(t, Spec{Name: "it"})
	r.relay.Blackhole(fault.Both)
	r.primary.Kill()
	began := time.Now()
	require.NoError(t, r.standby.PromoteNow())
	next := open(t, r.standby.URL(), short)
	c := next.acquire(t, Spec{Name: "it"})
	require.False(t, held.Valid())
	require.GreaterOrEqual(t, time.Since(began), short)
	releaseShort(t, c)
}

// The tables are dropped, and perhaps made again at once. The holder stops at its next heartbeat, long before its
// deadline.
func TestTablesAreDropped(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	p := open(t, db.URL(), steady)
	const drop = "DROP SCHEMA goverse CASCADE;"
	for _, sql := range []string{drop + SchemaSQL(DefaultSchema), drop} { // each in one transaction
		held := p.acquire(t, Spec{Name: "it"})
		conn := connect(t, db.URL())
		require.Eventually(t, func() bool {
			_, err := conn.Exec(patient(t), sql)
			if pg.CodeOf(err) == pg.CodeDeadlock { // with a look of the session, which reads several tables
				return false
			}
			require.NoError(t, err)
			return true
		}, patience, time.Millisecond)
		require.NoError(t, conn.Close(patient(t)))
		<-held.Context().Done()
		lost, ok := held.EndCause().(*session.LostError)
		require.True(t, ok, "%v", held.EndCause())
		require.Equal(t, session.ReasonRevoked, lost.Reason)
	}
	release(t, p.acquire(t, Spec{Name: "it"}))
}

// A session with a long deadline puts off the grants of a new epoch while it is there, and not once it has been closed.
func TestLongDeadlineIsForgotten(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	const waits = "SELECT coalesce(max(wait_us), -1) FROM goverse.epoch WHERE started = pg_postmaster_start_time()"
	var log logtest.Buffer
	a := open(t, db.URL(), short)
	long, err := Open(patient(t), config(db.URL(), MaxDeadline, &log))
	require.NoError(t, err)
	require.NoError(t, long.Close(patient(t)))
	require.NoError(t, db.RestartFast())
	require.Eventually(t, func() bool { return query[int64](t, db, waits) >= 0 }, patience, time.Millisecond)
	require.LessOrEqual(t, query[int64](t, db, waits), short.Microseconds()) // a may have left its session before
	releaseShort(t, a.acquire(t, Spec{Name: "it"}))

	execute(t, db, `INSERT INTO goverse.session (id, epoch, deadline_us, owner)
		SELECT 1, id, $1, 'one that is gone' FROM goverse.epoch`, MaxDeadline.Microseconds())
	require.NoError(t, db.RestartImmediately())
	require.Eventually(t, func() bool { return query[int64](t, db, waits) >= 0 }, patience, time.Millisecond)
	require.Equal(t, MaxDeadline.Microseconds(), query[int64](t, db, waits))
}
