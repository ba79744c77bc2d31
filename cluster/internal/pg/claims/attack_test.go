//go:build unix

package claims

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// lockRow locks a row until unlock is called.
func lockRow(t testing.TB, db server, sql string, args ...any) (unlock func()) {
	t.Helper()
	conn := connect(t, db.URL())
	tx, err := conn.Begin(patient(t))
	require.NoError(t, err)
	tag, err := tx.Exec(patient(t), sql, args...)
	require.NoError(t, err)
	require.NotZero(t, tag.RowsAffected())
	return func() {
		require.NoError(t, tx.Commit(patient(t)))
		require.NoError(t, conn.Close(patient(t)))
	}
}

const lockName = "SELECT 1 FROM goverse.name WHERE name = $1 FOR UPDATE"

// Any user of the database can send a notification. It grants nothing.
func TestForgedNotification(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	a, b := open(t, db.URL(), steady), open(t, db.URL(), steady)
	held, other := a.acquire(t, Spec{Name: "it"}), a.acquire(t, Spec{Name: "other"})
	got := b.startWaiter(t, db, Spec{Name: "it"})
	seq := query[int64](t, db, "SELECT seq FROM goverse.claim WHERE name = 'it' AND token IS NULL")
	gotOther := b.startWaiter(t, db, Spec{Name: "other"})
	for _, payload := range []string{"", "x", fmt.Sprint(seq), fmt.Sprint(seq, " 99"), fmt.Sprint(seq + 1e9), "-1 7"} {
		execute(t, db, "SELECT pg_notify($1, $2)", fmt.Sprint("goverse_", b.Current().id), payload)
	}
	release(t, other)
	c, _ := granted(t, gotOther) // its notification came after those
	require.Empty(t, got)
	require.True(t, held.Valid())
	release(t, c)
	release(t, held)
	c, _ = granted(t, got)
	release(t, c)
}

// A process whose claims begin to wait all the time looks at the other sessions all the same.
func TestBusyProcessEndsSilentSessions(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	r, err := fault.NewRelay(db.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	deadline := pace.TTL(time.Second)
	busy, holder := open(t, db.URL(), deadline), open(t, through(t, db, r.Address()), deadline)
	holder.acquire(t, Spec{Name: "it"})
	ctx, cancel := context.WithCancel(patient(t))
	var tasks sync.WaitGroup
	for range 4 {
		tasks.Go(func() {
			for ctx.Err() == nil {
				if c, err := busy.Acquire(ctx, Spec{Name: "hot"}); err == nil {
					_, _ = c.Release(ctx)
				}
			}
		})
	}
	got := busy.startWaiter(t, db, Spec{Name: "it"})
	r.Blackhole(fault.Both)
	began := time.Now()
	c, at := granted(t, got)
	t.Logf("granted after %v", at.Sub(began))
	cancel()
	tasks.Wait()
	release(t, c)
}

// A caller with a long deadline waits no longer for a session with a short one than that takes.
func TestDeadlinesDiffer(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	r, err := fault.NewRelay(db.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	patient, hasty := open(t, db.URL(), MaxDeadline), open(t, through(t, db, r.Address()), short)
	hasty.acquire(t, Spec{Name: "it"})
	got := patient.startWaiter(t, db, Spec{Name: "it"})
	r.Blackhole(fault.Both)
	c, _ := granted(t, got)
	release(t, c)
}

// After a restart, a session with a longer deadline that is new does not put off the grants to others.
func TestLongDeadlineAfterARestart(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	a := open(t, db.URL(), short)
	require.NoError(t, db.RestartFast())
	var log logtest.Buffer
	require.Eventually(t, func() bool {
		k, err := Open(patient(t), config(db.URL(), MaxDeadline, &log))
		if err == nil {
			t.Cleanup(func() { _ = k.Close(context.Background()) })
		}
		return err == nil
	}, patience, time.Millisecond)
	releaseShort(t, a.acquire(t, Spec{Name: "it"}))
}

// A name whose row another program has locked does not hold up the others.
func TestRowOfANameIsLocked(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	deadline := pace.TTL(3 * time.Second) // a request that met a locked row is sent again so long afterwards
	a, b := open(t, db.URL(), deadline), open(t, db.URL(), deadline)
	for _, name := range []string{"a", "b", "c"} {
		b.acquire(t, Spec{Name: name})
	}
	got := a.startWaiter(t, db, Spec{Name: "b"})
	gotFirst := a.startWaiter(t, db, Spec{Name: "a"})
	unlock := lockRow(t, db, lockName, "a")
	gotLocked := make(chan *Claim, 10)
	for range cap(gotLocked) {
		go func() { c, _ := a.Acquire(patient(t), Spec{Name: "a"}); gotLocked <- c }()
	}
	release(t, a.acquire(t, Spec{Name: "free"}))
	terminate(t, db, b.session(t))
	c, _ := granted(t, got)
	release(t, c)
	release(t, b.acquire(t, Spec{Name: "b"}))
	unlock()
	c, _ = granted(t, gotFirst)
	release(t, c)
	for range cap(gotLocked) {
		release(t, <-gotLocked)
	}
}

// A name that the server refuses does not make those fail that were sent with it.
func TestRefusedName(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	p := open(t, db.URL(), steady)
	for _, name := range []string{"first", "bad", "good"} {
		release(t, p.acquire(t, Spec{Name: name}))
	}
	execute(t, db, "UPDATE goverse.name SET token = 9223372036854775807 WHERE name = 'bad'")
	unlock := lockRow(t, db, lockName, "first")
	errs := map[string]chan error{}
	for _, name := range []string{"first", "bad", "good"} {
		done := make(chan error, 1)
		errs[name] = done
		go func() { _, err := p.Acquire(patient(t), Spec{Name: name}); done <- err }()
		if name == "first" {
			require.Eventually(t, func() bool {
				return query[int](t, db, "SELECT count(*) FROM pg_stat_activity WHERE "+waitsForLock) == 1
			}, patience, time.Millisecond)
		}
	}
	s := p.Current()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.claims) == 3
	}, patience, time.Millisecond)
	unlock()
	require.NoError(t, <-errs["first"])
	require.NoError(t, <-errs["good"])
	require.ErrorContains(t, <-errs["bad"], "out of range")
}

// A database with another encoding refuses names that it cannot store.
func TestOtherEncoding(t *testing.T) {
	pace.Parallel(t)
	db := shared.Server(t)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		name := fmt.Sprint("encoded", roles.Add(1))
		execute(t, db, "CREATE DATABASE "+name+" ENCODING "+encoding+" TEMPLATE template0")
		u, err := url.Parse(db.URL())
		require.NoError(t, err)
		u.Path = name
		p := open(t, u.String(), steady)
		for _, name := range []string{"é", "%", "a\x00b", "\xff\xfe", strings.Repeat("\xff", 512)} {
			release(t, p.acquire(t, Spec{Name: name}))
		}
		c, err := p.Acquire(patient(t), Spec{Name: "日本"})
		if encoding == "LATIN1" {
			require.ErrorContains(t, err, "no equivalent in encoding")
			continue
		}
		require.NoError(t, err)
		release(t, c)
	}
}

// The answer to a claim is lost, and its repetition is refused. The claim does not stay behind.
func TestRefusedAfterALostAnswer(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	r, err := fault.NewRelay(db.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	var log logtest.Buffer
	var opened atomic.Int64
	cfg := config("", steady, &log)
	cfg.Connect = func(context.Context) (*pgx.ConnConfig, error) {
		if opened.Add(1) == 2 { // that for requests
			return pgx.ParseConfig(through(t, db, r.Address()))
		}
		return pgx.ParseConfig(db.URL())
	}
	k := openKeeper(t, cfg)
	t.Cleanup(func() { require.NoError(t, k.Close(patient(t))) })
	p := &process{k, &log}
	release(t, p.acquire(t, Spec{Name: "it"}))
	id := p.SessionID()
	r.Blackhole(fault.FromTarget)
	done := make(chan error, 1)
	go func() { _, err := p.Acquire(patient(t), Spec{Name: "it", Try: true}); done <- err }()
	const claims = "SELECT count(*) FROM goverse.claim"
	require.Eventually(t, func() bool { return query[int](t, db, claims) == 1 }, patience, time.Millisecond)
	execute(t, db, "UPDATE goverse.name SET token = 9223372036854775807")
	r.Reset(fault.Both)
	require.ErrorContains(t, <-done, "out of range")
	require.Eventually(t, func() bool { return query[int](t, db, claims) == 0 }, patience, time.Millisecond)
	require.Equal(t, id, p.SessionID())
}

// A row of a session that another program has locked costs the session, not the process.
func TestRowOfASessionIsLocked(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	p := open(t, db.URL(), pace.TTL(2*time.Second))
	id := p.session(t).id
	unlock := lockRow(t, db, "SELECT 1 FROM goverse.session WHERE id = $1 FOR UPDATE", id)
	require.Eventually(t, func() bool { return p.Valid() && p.SessionID() != id }, patience, time.Millisecond)
	releaseShort(t, p.acquire(t, Spec{Name: "it"}))
	unlock()
}

// A heartbeat that an administrator cancels does not cost the session.
func TestHeartbeatIsCancelled(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	p := open(t, db.URL(), steady)
	s := p.Current()
	unlock := lockRow(t, db, "SELECT 1 FROM goverse.session FOR UPDATE")
	require.Eventually(t, func() bool {
		return query[bool](t, db, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE "+waitsForLock+
			" UNION ALL SELECT false LIMIT 1")
	}, patience, time.Millisecond)
	unlock()
	beat := query[int64](t, db, "SELECT beat FROM goverse.session")
	require.Eventually(t, func() bool {
		return query[int64](t, db, "SELECT coalesce(max(beat), 0) FROM goverse.session WHERE id = $1", s.id) > beat
	}, patience, time.Millisecond)
	require.Same(t, s, p.Current())
}

// Close returns when PostgreSQL does not answer, even if its context does not end.
func TestCloseWithoutAnAnswer(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	r, err := fault.NewRelay(db.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	p := open(t, through(t, db, r.Address()), short)
	r.Blackhole(fault.Both)
	require.ErrorContains(t, p.Close(context.Background()), "give the session up")
}

// The configuration of a connection is the caller's, and may be used for several connections at once.
func TestSharedConnectionConfig(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	shared, err := pgx.ParseConfig(db.URL())
	require.NoError(t, err)
	var log logtest.Buffer
	cfg := config("", steady, &log)
	cfg.Connect = func(context.Context) (*pgx.ConnConfig, error) { return shared, nil }
	k, err := Open(patient(t), cfg)
	require.NoError(t, err)
	require.NoError(t, k.Close(patient(t)))
	require.Nil(t, shared.ValidateConnect)
}

// Shared claims are granted up to the first exclusive one, each with its own token.
func TestSharedClaimsAreGrantedTogether(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	p := open(t, db.URL(), steady)
	held := p.acquire(t, Spec{Name: "it"})
	const n = 300
	got := make(chan *Claim, n)
	for range n {
		go func() { c, _ := p.Acquire(patient(t), Spec{Name: "it", Shared: true}); got <- c }()
	}
	const claims = "SELECT count(*) FROM goverse.claim"
	require.Eventually(t, func() bool { return query[int](t, db, claims) == n+1 }, patience, time.Millisecond)
	exclusive := p.startWaiter(t, db, Spec{Name: "it"})
	later := p.startWaiter(t, db, Spec{Name: "it", Shared: true})
	release(t, held)
	tokens, top := map[int64]bool{}, held.Token()
	for range n {
		c := <-got
		require.NotNil(t, c)
		tokens[c.Token()] = true
		require.Greater(t, c.Token(), held.Token())
		top = max(top, c.Token())
		defer release(t, c)
	}
	require.Len(t, tokens, n)
	require.Empty(t, exclusive)
	require.Empty(t, later)
	require.Equal(t, top, query[int64](t, db, "SELECT token FROM goverse.name"))
}

// Names that have not been claimed for long are deleted, and their tokens do not come again, even if the clock of the
// server is set back.
func TestNamesAreForgotten(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	p := open(t, db.URL(), pace.TTL(3*time.Second)) // names are looked at once in a deadline
	kept := p.acquire(t, Spec{Name: "kept"})
	const n = 2*maxBatch + 10
	var last *Claim
	for i := range n {
		last = p.acquire(t, Spec{Name: fmt.Sprint("name ", i)})
		release(t, last)
	}
	release(t, p.acquire(t, Spec{Name: "ahead"}))
	execute(t, db, "UPDATE goverse.name SET token = 9e18::bigint WHERE name = 'ahead'")
	execute(t, db, "UPDATE goverse.name SET used = used - interval '2 hours'")
	require.Eventually(t, func() bool { return query[int](t, db, "SELECT count(*) FROM goverse.name") == 2 }, patience,
		time.Millisecond)
	require.Equal(t, last.Token(), query[int64](t, db, "SELECT token_floor FROM goverse.setting"))
	require.True(t, kept.Valid())

	const year = 365 * 24 * 3600 * 1e6
	execute(t, db, "UPDATE goverse.setting SET token_floor = token_floor + $1", int64(year))
	again := p.acquire(t, Spec{Name: last.Name()})
	require.Equal(t, last.Token()+year+1, again.Token())
	release(t, again)
}

// Whatever rows of names an operator deletes, the queue goes on.
func TestRowOfANameIsDeleted(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	p := open(t, db.URL(), steady)
	for range 3 {
		release(t, p.acquire(t, Spec{Name: "it"}))
	}
	held := p.acquire(t, Spec{Name: "it"})
	first := p.startWaiter(t, db, Spec{Name: "it"})
	execute(t, db, "DELETE FROM goverse.name")
	second := p.startWaiter(t, db, Spec{Name: "it"})
	execute(t, db, "DELETE FROM goverse.name")
	require.Empty(t, first)
	release(t, held)
	c, _ := granted(t, first)
	require.Greater(t, c.Token(), held.Token())
	require.Empty(t, second)
	release(t, c)
	c, _ = granted(t, second)
	release(t, c)
}
