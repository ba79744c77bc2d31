//go:build linux

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// newPostgresBench returns a bench whose processes have PostgreSQL and no etcd.
func newPostgresBench(t *testing.T, db string) *workBench {
	t.Helper()
	b := &workBench{T: t, db: db, dir: t.TempDir(), name: t.Name()}
	t.Cleanup(func() { require.Empty(t, overlappingPeriods(readWorkPeriods(t, b.dir)), "two at work") })
	return b
}

// through returns the bench with processes that reach the database through a relay.
func (b *workBench) through() (*workBench, *fault.Relay) {
	b.Helper()
	u, err := url.Parse(b.db)
	require.NoError(b, err)
	r, err := fault.NewRelay(u.Host)
	require.NoError(b, err)
	b.Cleanup(func() { _ = r.Close() })
	u.Host = r.Address()
	relayed := *b
	relayed.db = u.String()
	return &relayed, r
}

// ask returns the value of a query.
func (b *workBench) ask(sql string, args ...any) (value int64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, b.db)
	require.NoError(b, err)
	defer func() { require.NoError(b, conn.Close(ctx)) }()
	require.NoError(b, conn.QueryRow(ctx, sql, args...).Scan(&value))
	return value
}

// awaitClaims waits until n claims stand, or wait, for the bench's name.
func (b *workBench) awaitClaims(n int64) {
	b.Helper()
	procs.Await(b.T, patience, "they queue", func() error {
		return equal("claims", b.ask("select count(*) from goverse.claim where name like '%/' || $1", b.name), n)
	})
}

// requireInTurn fails unless the next command began after the last sign of life of the one with that token.
func (b *workBench) requireInTurn(token int64, next workPeriod) {
	b.Helper()
	for _, s := range readWorkPeriods(b.T, b.dir) {
		require.True(b, s.token != token || s.to < next.from, "%+v, %+v", s, next)
	}
}

// terminateSession ends the server process that has a goversed's session.
func (b *workBench) terminateSession(p *procs.Process) {
	b.Helper()
	require.EqualValues(b, 1, b.ask(`select count(pg_terminate_backend(l.pid)) from pg_locks l join goverse.session s
		on l.locktype = 'advisory' and l.classid::bigint = s.id >> 32 and l.objid::bigint = s.id & 4294967295
		where s.owner like '%:' || $1`, fmt.Sprint(p.Pid())))
}

// Whatever is killed or cut, the next command works only after nothing of this one is left. With a long TTL that is
// soon: the session is given up when the command has ended.
func TestExecPostgresLost(t *testing.T) {
	t.Parallel()
	kit.GoversedPath(t)
	for name, c := range map[string]struct {
		ttl  time.Duration
		how  []string
		lose func(t *testing.T, b *workBench, a *procs.Process, r *fault.Relay, worker workPeriod)
		code int // goversed's exit code; -1 if goversed was killed, 0 if it goes on
	}{
		"goversed killed": {longTTL, []string{stubborn, forks}, func(t *testing.T, _ *workBench, a *procs.Process,
			_ *fault.Relay, _ workPeriod) {
			a.Kill(t)
		}, -1},
		"command killed": {longTTL, []string{forks}, func(t *testing.T, _ *workBench, _ *procs.Process, _ *fault.Relay,
			w workPeriod) {
			require.NoError(t, syscall.Kill(w.pid, syscall.SIGKILL))
		}, 137},
		"guard killed": {longTTL, []string{stubborn, forks}, func(t *testing.T, _ *workBench, _ *procs.Process,
			_ *fault.Relay, w workPeriod) {
			require.NoError(t, syscall.Kill(w.parent, syscall.SIGKILL))
		}, 137},
		"goversed and guard killed": {shortTTL, []string{stubborn}, func(t *testing.T, _ *workBench, a *procs.Process,
			_ *fault.Relay, w workPeriod) {
			a.Freeze(t) // so that it does not see the end of its guard
			require.NoError(t, syscall.Kill(w.parent, syscall.SIGKILL))
			a.Kill(t)
		}, -1},
		"SIGTERM": {longTTL, nil, func(t *testing.T, _ *workBench, a *procs.Process, _ *fault.Relay, _ workPeriod) {
			a.Signal(t, syscall.SIGTERM)
		}, 143},
		"connections cut": {longTTL, []string{stubborn, forks}, func(_ *testing.T, _ *workBench, _ *procs.Process,
			r *fault.Relay, _ workPeriod) {
			r.Reset(fault.Both)
		}, 0},
		"session's connection terminated": {longTTL, []string{stubborn, forks}, func(_ *testing.T, b *workBench,
			a *procs.Process, _ *fault.Relay, _ workPeriod) {
			b.terminateSession(a)
		}, 0},
		"goversed stopped": {shortTTL, []string{stubborn, forks}, func(t *testing.T, _ *workBench, a *procs.Process,
			_ *fault.Relay, _ workPeriod) {
			a.Freeze(t)
		}, 0},
		"guard stopped, cut off": {shortTTL, []string{stubborn, forks}, func(t *testing.T, _ *workBench, _ *procs.Process,
			r *fault.Relay, w workPeriod) {
			require.NoError(t, syscall.Kill(w.parent, syscall.SIGSTOP))
			r.Blackhole(fault.Both)
		}, 0},
		"cut off": {shortTTL, []string{stubborn}, func(_ *testing.T, _ *workBench, _ *procs.Process, r *fault.Relay,
			_ workPeriod) {
			r.Blackhole(fault.Both)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newPostgresBench(t, kit.Database(t))
			relayed, r := b.through()
			workers := 1
			if len(c.how) > 0 && c.how[len(c.how)-1] == forks {
				workers = 2
			}
			stop := "400ms"
			if c.ttl == longTTL {
				stop = "2s" // another command that did not wait for the end of this one would begin before
			}
			first := relayed.exec(c.ttl, []string{"--stop-timeout", stop}, c.how...)
			at := b.awaitAtWork(0, workers)
			worker := at[0]
			if workers == 2 {
				worker = commandOf(at)
			}
			b.exec(c.ttl, nil)
			b.awaitClaims(2)
			began := time.Now()
			c.lose(t, b, first, r, worker)
			next := b.awaitAtWork(worker.token, 1)[0]
			took := time.Since(began)
			t.Logf("the next one works after %v", took)
			b.requireInTurn(worker.token, next)
			if c.ttl == longTTL {
				require.Less(t, took, longTTL/2, "it did not wait for the deadline")
			}
			if c.code != 0 {
				require.Equal(t, c.code, first.Exit(t, patience))
				return
			}
			require.NoError(t, r.Heal())
			first.Thaw(t)
			b.awaitClaims(2) // it queues again and leaves the other one working
			require.True(t, first.Running())
		})
	}
}

// While PostgreSQL is away no command works after the deadline. When it is back, one does.
func TestExecWithoutPostgres(t *testing.T) {
	t.Parallel()
	db := pgserver.StartForTest(t)
	b := newPostgresBench(t, db.URL())
	first := b.exec(shortTTL, nil, stubborn, forks)
	at := b.awaitAtWork(0, 2)
	second := b.exec(shortTTL, nil, stubborn, forks)
	b.awaitClaims(2)
	db.Kill()
	gone := monotonic()
	for _, s := range at {
		procs.Await(t, patience, "the command is ended", func() error { return alive(s.pid) })
	}
	for _, s := range readWorkPeriods(t, b.dir) {
		require.Equal(t, at[0].token, s.token)
		require.Less(t, s.to-gone, shortTTL)
	}
	require.NoError(t, db.Restart())
	again := b.awaitAtWork(at[0].token, 2)
	require.Greater(t, again[0].from-gone, shortTTL/2, "nothing is granted for the deadline")
	require.True(t, first.Running() && second.Running(), "both went on trying")
}

func TestLockPostgresCommandLine(t *testing.T) {
	t.Parallel()
	b := newPostgresBench(t, kit.Database(t))
	t.Run("exit code", func(t *testing.T) {
		for code, command := range map[int][]string{0: {"true"}, 7: {"sh", "-c", "exit 7"}, 137: {"sh", "-c",
			"kill -KILL $$"}, 127: {"no-such-command"}} {
			require.Equal(t, code, b.lock(nil, command...).Exit(t, patience), command)
		}
		require.Zero(t, b.ask("select count(*) from goverse.session"), "nothing is left")
	})
	t.Run("environment", func(t *testing.T) {
		p := b.lock(nil, "env")
		require.Zero(t, p.Exit(t, patience))
		for _, says := range []string{"GOVERSE_LOCK=" + b.name, "GOVERSE_TOKEN=", "GOVERSE_POSTGRES=" + b.db,
			"GOVERSE_SCHEMA=goverse", "GOVERSE_KEY=lock/" + b.name} {
			require.Contains(t, p.Output(), "\n"+says, "in "+p.Output())
		}
	})
	t.Run("a password in a flag is not passed on", func(t *testing.T) {
		u, err := url.Parse(b.db)
		require.NoError(t, err)
		u.User = url.UserPassword(u.User.Username(), "secret")
		secret := *b
		secret.db = u.String()
		p := secret.lock(nil, "sh", "-c", "env; tr '\\0' ' ' < /proc/$PPID/cmdline")
		require.Zero(t, p.Exit(t, patience), p.Output())
		require.Contains(t, p.Output(), "guard --etcd")
		require.NotContains(t, p.Output(), "secret")
	})
	t.Run("nested", func(t *testing.T) {
		inner := func(flags ...string) []string {
			return append(append([]string{kit.GoversedPath(t), "lock"}, flags...), "--", "true")
		}
		p := b.lock(nil, inner(b.name)...)
		require.Equal(t, 125, p.Exit(t, patience))
		require.Contains(t, p.Output(), "it would wait for itself forever")
		require.Zero(t, b.lock(nil, inner("other")...).Exit(t, patience))
		require.Equal(t, 124, b.lock(nil, inner(b.name, "-n")...).Exit(t, patience))
		require.Zero(t, b.lock([]string{"--shared"}, inner(b.name, "-s")...).Exit(t, patience))
		require.Zero(t, b.lock(nil, inner(b.name, "--schema", "another")...).Exit(t, patience))
	})
	t.Run("busy", func(t *testing.T) {
		holder := b.lock([]string{"--shared"}, "sh", "-c", "echo inside; exec sleep 60")
		holder.AwaitOutput(t, patience, "inside")
		require.Equal(t, 124, b.lock([]string{"--nonblock"}, "true").Exit(t, patience))
		waited := b.lock([]string{"-w", "1", "--log-level", "info"}, "true")
		require.Equal(t, 124, waited.Exit(t, patience))
		require.Contains(t, waited.Output(), "not available within 1s")
		require.Contains(t, waited.Output(), fmt.Sprintf(":%d", holder.Pid()), "it names the holder")
		require.Zero(t, b.lock([]string{"--shared", "-n"}, "true").Exit(t, patience), "it is shared")
		waits := b.lock(nil, "true")
		b.awaitClaims(2)
		waits.Signal(t, syscall.SIGTERM)
		require.Equal(t, 143, waits.Exit(t, patience), "the wait was ended")
		holder.Signal(t, syscall.SIGTERM)
		require.Equal(t, 143, holder.Exit(t, patience), "passed on")
		b.awaitClaims(0)
	})
	t.Run("lost", func(t *testing.T) {
		p := b.lock(nil, "sh", "-c", "echo inside; exec sleep 60")
		p.AwaitOutput(t, patience, "inside")
		b.terminateSession(p)
		require.Equal(t, 123, p.Exit(t, patience))
		require.Contains(t, p.Output(), "was lost and the command ended")
	})
	t.Run("refused", func(t *testing.T) {
		u, err := url.Parse(b.db)
		require.NoError(t, err)
		u.Path = "/no_such_database"
		wrong := &workBench{T: t, db: u.String(), name: "it"}
		p := wrong.lock(nil, "true")
		require.Equal(t, 125, p.Exit(t, patience))
		require.Contains(t, p.Output(), "no_such_database")
		wrong.db = "postgres://" + kit.Addresses(t, 1)[0] + "/x?sslmode=disable"
		p = wrong.lock([]string{"-w", "700ms"}, "true")
		require.Equal(t, 125, p.Exit(t, patience))
		require.Contains(t, p.Output(), "connection refused")
		require.Contains(t, p.Output(), "retrying")
	})
}

// A URL through a pooler of transactions is refused with the remedy.
func TestExecPostgresPooled(t *testing.T) {
	t.Parallel()
	db := pgserver.StartForTest(t)
	b := &workBench{T: t, db: db.PooledForTest(t, "transaction"), name: "it"}
	p := b.lock(nil, "true")
	require.Equal(t, 125, p.Exit(t, patience))
	require.Contains(t, p.Output(), "pool_mode=session")
}

// goversed waits for a PostgreSQL that is not there yet.
func TestExecWaitsForPostgres(t *testing.T) {
	t.Parallel()
	db := pgserver.StartForTest(t)
	db.Kill()
	b := newPostgresBench(t, db.URL())
	b.exec(longTTL, nil).AwaitOutput(t, patience, "could not open a session in PostgreSQL, retrying")
	require.NoError(t, db.Restart())
	b.awaitAtWork(0, 1)
}

// The example in the help works: a write under an old token is refused.
func TestExecFencesWithPsql(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not installed")
	}
	b := newPostgresBench(t, kit.Database(t))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, b.db)
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "create table pos (at int); insert into pos values (0)")
	require.NoError(t, errors.Join(err, conn.Close(ctx)))
	write := func(value int) string {
		return fmt.Sprintf(`echo "begin; select 1 / count(*) from (select from goverse.claim
			where name = :'key' and token = :'token' for key share) held; update pos set at = %d; commit" |
			psql "$GOVERSE_POSTGRES" -v ON_ERROR_STOP=1 -v key="$GOVERSE_KEY" -v token="$GOVERSE_TOKEN"`, value)
	}
	keep := filepath.Join(t.TempDir(), "environment")
	p := b.lock(nil, "sh", "-c", "export -p > "+keep+"; "+write(1))
	require.Zero(t, p.Exit(t, patience), p.Output())
	require.EqualValues(t, 1, b.ask("select at from pos"))
	late := ". " + keep + "; " + write(2)
	require.NotZero(t, kit.Start(t, "late", "sh", []string{"-c", late}, nil).Exit(t, patience))
	p = b.lock(nil, "sh", "-c", "! ( "+late+" ) && "+write(3))
	require.Zero(t, p.Exit(t, patience), p.Output())
	require.EqualValues(t, 3, b.ask("select at from pos"))
}
