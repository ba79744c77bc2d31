//go:build unix

package claims

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// However a holder is lost, the next caller gets the name, and the holder does not rely on it any more by then.
func TestHolderIsLost(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	for _, test := range []struct {
		name string
		lose func(t *testing.T, r *fault.Relay, holder *Session)
		out  bool // out-of-band changes are noticed by the next heartbeat only
	}{
		{"its connection is reset", func(_ *testing.T, r *fault.Relay, _ *Session) { r.Reset(fault.Both) }, false},
		{"its server process is terminated", func(t *testing.T, _ *fault.Relay, s *Session) {
			terminate(t, db, s)
		}, false},
		{"it is cut off", func(_ *testing.T, r *fault.Relay, _ *Session) { r.Blackhole(fault.Both) }, false},
		{"it is not heard", func(_ *testing.T, r *fault.Relay, _ *Session) { r.Blackhole(fault.ToTarget) }, false},
		{"it hears nothing", func(_ *testing.T, r *fault.Relay, _ *Session) { r.Blackhole(fault.FromTarget) }, false},
		{"it hears nothing, and its server process is terminated", func(t *testing.T, r *fault.Relay, s *Session) {
			r.Blackhole(fault.FromTarget)
			terminate(t, db, s) // its advisory lock is free at once, and it does not know
		}, false},
		{"its session is deleted", func(t *testing.T, _ *fault.Relay, s *Session) {
			execute(t, db, "DELETE FROM goverse.session WHERE id = $1", s.id)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			pace.Parallel(t)
			r, err := fault.NewRelay(db.Address())
			require.NoError(t, err)
			t.Cleanup(func() { _ = r.Close() })
			holder, next := open(t, through(t, db, r.Address()), short), open(t, db.URL(), steady)
			held := holder.acquire(t, Spec{Name: t.Name()})
			got := next.startWaiter(t, db, Spec{Name: t.Name()})
			began := time.Now()
			test.lose(t, r, held.s)
			c, at := granted(t, got)
			if test.out {
				<-held.Context().Done()
			}
			require.False(t, held.Valid())
			require.Greater(t, c.Token(), held.Token())
			t.Logf("granted to the next after %v", at.Sub(began).Round(time.Millisecond))
			why := held.EndCause()
			if !test.out || !errors.Is(why, ErrClaimLost) { // its row may be missed before the session's
				require.ErrorIs(t, why, session.ErrLost)
			}
			lost, err := held.Release(patient(t))
			require.NoError(t, err)
			require.ErrorIs(t, lost, why)
			require.NoError(t, r.Heal())
			again := holder.startWaiter(t, db, Spec{Name: t.Name()})
			release(t, c)
			c, _ = granted(t, again)
			releaseShort(t, c)
		})
	}
}

// A claim whose row is deleted is lost; one that waits is requested again.
func TestClaimIsDeleted(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	a, b := open(t, db.URL(), steady), open(t, db.URL(), steady)
	held := a.acquire(t, Spec{Name: "it"})
	got := b.startWaiter(t, db, Spec{Name: "it"})
	const del = "WITH d AS (DELETE FROM goverse.claim WHERE session = $1 RETURNING 1) SELECT count(*) FROM d"
	require.Equal(t, 1, query[int](t, db, del, b.Current().id))
	require.Eventually(t, func() bool {
		return query[int](t, db, "SELECT count(*) FROM goverse.claim WHERE session = $1", b.Current().id) == 1
	}, patience, time.Millisecond)
	require.Equal(t, 1, query[int](t, db, del, a.Current().id))
	<-held.Context().Done()
	require.ErrorIs(t, context.Cause(held.Context()), ErrClaimLost)
	c, _ := granted(t, got)
	require.Greater(t, c.Token(), held.Token())
	lost, err := held.Release(patient(t))
	require.NoError(t, err)
	require.ErrorIs(t, lost, ErrClaimLost)
	release(t, c)
}

// After the server was started anew nothing is granted for the deadline, and old holders are gone.
func TestServerRestarts(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	deadline := pace.TTL(2 * time.Second) // a new session is opened sooner
	for name, restart := range map[string]func() error{"fast": db.RestartFast, "immediate": db.RestartImmediately} {
		t.Run(name, func(t *testing.T) {
			a, b := open(t, db.URL(), deadline), open(t, db.URL(), deadline)
			held := a.acquire(t, Spec{Name: "it"})
			got := b.startWaiter(t, db, Spec{Name: "it"})
			require.NoError(t, restart())
			began := query[time.Time](t, db, "SELECT pg_postmaster_start_time()")
			c, at := granted(t, got)
			require.False(t, held.Valid())
			require.Greater(t, c.Token(), held.Token())
			require.GreaterOrEqual(t, at.Sub(began), deadline)
			t.Logf("granted %v after the start of the server", at.Sub(began).Round(time.Millisecond))
			releaseShort(t, c)
			require.NoError(t, a.Close(patient(t)))
			require.NoError(t, b.Close(patient(t)))
			require.Zero(t, query[int](t, db, "SELECT count(*) FROM goverse.session"))
		})
	}
}

// The connection for requests is cut while the server process that carries out a claim waits for a lock. The claim is
// requested once more, and made once.
func TestAnswerToAClaimIsLost(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	r, err := fault.NewRelay(db.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	p := open(t, through(t, db, r.Address()), steady)
	release(t, p.acquire(t, Spec{Name: "it"}))

	blocks := connect(t, db.URL())
	tx, err := blocks.Begin(patient(t))
	require.NoError(t, err)
	_, err = tx.Exec(patient(t), "SELECT 1 FROM goverse.name WHERE name = 'it' FOR UPDATE")
	require.NoError(t, err)
	got := make(chan *Claim, 1)
	go func() {
		defer close(got)
		if c, err := p.Acquire(context.Background(), Spec{Name: "it"}); err == nil {
			got <- c
		}
	}()
	const blocked = "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE " + waitsForLock
	var pid int32
	require.Eventually(t, func() bool { pid = query[int32](t, db, blocked); return pid != 0 }, patience, time.Millisecond)
	id := p.Current().id
	require.True(t, query[bool](t, db, "SELECT pg_terminate_backend($1)", pid))
	require.Eventually(t, func() bool {
		other := query[int32](t, db, blocked)
		return other != 0 && other != pid
	}, patience, time.Millisecond, "it is sent again")
	require.NoError(t, tx.Commit(patient(t)))
	require.NoError(t, blocks.Close(patient(t)))
	c, _ := granted(t, got)
	require.Equal(t, id, p.Current().id, "the session goes on")
	require.Equal(t, 1, query[int](t, db, "SELECT count(*) FROM goverse.claim"))
	release(t, c)
	require.Zero(t, query[int](t, db, "SELECT count(*) FROM goverse.claim"))
}

// A session of another user, whose connection this one may not terminate, is ended after three deadlines.
func TestSilentSessionOfAnotherUser(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	execute(t, db, SchemaSQL(DefaultSchema))
	ann, bob := newUser(t, db), newUser(t, db)
	r, err := fault.NewRelay(db.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	deadline := pace.TTL(2 * time.Second)
	holder := open(t, as(t, ann, through(t, db, r.Address())), deadline)
	next := open(t, as(t, bob, db.URL()), steady)
	held := holder.acquire(t, Spec{Name: "it"})
	got := next.startWaiter(t, db, Spec{Name: "it"})
	began := time.Now()
	r.Blackhole(fault.Both)
	c, at := granted(t, got)
	require.False(t, held.Valid())
	require.GreaterOrEqual(t, at.Sub(began), 2*deadline)
	t.Logf("granted to the next after %v", at.Sub(began).Round(time.Millisecond))
	require.Equal(t, 1, next.log.Count("may not be terminated by this user"))
	release(t, c)
}

// A process that closes its session leaves nothing, and the next one need not wait.
func TestClose(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	a, b := open(t, db.URL(), time.Minute), open(t, db.URL(), time.Minute)
	held := a.acquire(t, Spec{Name: "it"})
	got := b.startWaiter(t, db, Spec{Name: "it"})
	require.NoError(t, a.Close(patient(t)))
	require.NoError(t, a.Close(patient(t)), "again is harmless")
	require.ErrorContains(t, context.Cause(held.Context()), "stopped")
	c, _ := granted(t, got)
	_, err := a.Acquire(patient(t), Spec{Name: "it"})
	require.ErrorContains(t, err, "stopped")
	lost, err := held.Release(patient(t))
	require.NoError(t, lost)
	require.NoError(t, err)
	release(t, c)
	require.NoError(t, b.Close(patient(t)))
	require.Zero(t, query[int](t, db, "SELECT count(*) FROM goverse.session"))
	// A server process ends some time after its client has closed the connection.
	require.Eventually(t, func() bool {
		return query[int](t, db, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 0
	}, patience, time.Millisecond)
}

func TestRefusedConnections(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	var log logtest.Buffer
	_, err := Open(patient(t), config(db.PooledForTest(t, "transaction"), steady, &log))
	require.ErrorIs(t, err, ErrPooled)
	standby, err := db.StartStandby()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Close()) })
	_, err = Open(patient(t), config(standby.URL(), steady, &log))
	require.ErrorIs(t, err, ErrStandby)
	_, err = Open(patient(t), config("postgres://127.0.0.1:1/none", steady, &log))
	require.Error(t, err)
	_, err = Open(patient(t), Config{Deadline: time.Millisecond})
	require.ErrorIs(t, err, ErrBadConfig)

	p := open(t, db.PooledForTest(t, "session"), steady)
	release(t, p.acquire(t, Spec{Name: "it"}))
	both := "postgres://postgres@" + standby.Address() + "," + db.Address() + "/postgres?sslmode=disable"
	release(t, open(t, both, steady).acquire(t, Spec{Name: "it"}))
}

// A user's transaction that has the fence keeps the name from the next caller, and none that is too late gets the
// fence.
func TestFence(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	a, b := open(t, db.URL(), steady), open(t, db.URL(), steady)
	held := a.acquire(t, Spec{Name: "it"})
	got := b.startWaiter(t, db, Spec{Name: "it"})
	conn := connect(t, db.URL())
	fence := func(c *Claim, tx Querier) bool {
		stands, err := c.LockRow(patient(t), tx)
		require.NoError(t, err)
		return stands
	}
	tx, err := conn.Begin(patient(t))
	require.NoError(t, err)
	require.True(t, fence(held, tx))
	released := make(chan error, 1)
	go func() {
		_, err := held.Release(context.Background())
		released <- err
	}()
	other := a.acquire(t, Spec{Name: "another"}) // it is not held up
	release(t, other)
	require.Empty(t, got)
	require.Empty(t, released)
	require.NoError(t, tx.Commit(patient(t)))
	require.NoError(t, <-released)
	c, _ := granted(t, got)
	require.False(t, fence(held, conn))

	// The same, where the session ends.
	tx, err = conn.Begin(patient(t))
	require.NoError(t, err)
	require.True(t, fence(c, tx))
	got = a.startWaiter(t, db, Spec{Name: "it"})
	terminate(t, db, c.s)
	<-c.Context().Done()
	release(t, a.acquire(t, Spec{Name: "another"}))
	require.Empty(t, got)
	require.NoError(t, tx.Commit(patient(t)))
	c, _ = granted(t, got)
	release(t, c)
	require.NoError(t, conn.Close(patient(t)))
}

// A heartbeat counts from when it was sent, not from its answer: the others count from before that.
func TestHeartbeatIsAnsweredLate(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	r, err := fault.NewRelay(db.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	deadline := pace.TTL(1500 * time.Millisecond)
	holder, next := open(t, through(t, db, r.Address()), deadline), open(t, db.URL(), steady)
	held := holder.acquire(t, Spec{Name: "it"})
	got := next.startWaiter(t, db, Spec{Name: "it"})
	s := held.s
	const beats = "SELECT coalesce(max(beat), 0) FROM goverse.session WHERE id = $1"
	r.Delay(fault.FromTarget, deadline/3)
	for beat := query[int64](t, db, beats, s.id); query[int64](t, db, beats, s.id) == beat && s.ctx.Err() == nil; {
	}
	r.Blackhole(fault.ToTarget) // the last heartbeat that arrives
	before := s.period.Load()
	require.Eventually(t, func() bool { return s.period.Load() != before || s.ctx.Err() != nil }, patience,
		time.Millisecond)
	r.Blackhole(fault.Both)
	terminate(t, db, s)
	c, _ := granted(t, got)
	require.False(t, held.Valid())
	release(t, c)
}
