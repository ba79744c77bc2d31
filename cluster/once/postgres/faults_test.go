//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/once/postgres"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// call is what a call of Once returns.
type call struct {
	once.Result
	err error
}

// begin calls Once with an effect that runs until end is called, which returns the call's outcome.
func (s *testBed) begin(p *process, name string, fn func(context.Context, int64) ([]byte, error)) (end func() call) {
	s.Helper()
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan call, 1)
	go func() {
		r, err := p.Once(s.ctx, name, func(ctx context.Context, token int64) ([]byte, error) {
			close(inside)
			<-goOn
			return fn(ctx, token)
		})
		ended <- call{r, err}
	}()
	select {
	case <-inside:
	case c := <-ended:
		require.FailNow(s, "the effect did not begin", "%v", c.err)
	}
	return func() call {
		close(goOn)
		select {
		case c := <-ended:
			return c
		case <-s.ctx.Done():
			return call{err: s.ctx.Err()}
		}
	}
}

// The session's connections end while the effect runs: its context ends, and the outcome is unknown.
func TestSessionLostInside(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.two()
	end := s.begin(a, "mail", func(ctx context.Context, _ int64) ([]byte, error) {
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), session.ErrLost)
		return []byte("sent"), nil
	})
	s.terminate(a.owner)
	c := end()
	token := requireUnknown(t, c.err, a.owner)
	require.ErrorIs(t, c.err, session.ErrLost)
	_, err := b.Once(s.ctx, "mail", never)
	require.Equal(t, token, requireUnknown(t, err, a.owner))
	require.NoError(t, a.Resolve(s.ctx, "mail", token, true, nil), "in another session")
}

// terminate ends the connections with a name.
func (s *testBed) terminate(application string) {
	s.Helper()
	n := s.exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", application)
	require.Positive(s, n)
}

// endSession ends a session out of band, which its process notices at its next heartbeat.
func (s *testBed) endSession(p *process) {
	s.Helper()
	require.EqualValues(s, 1, s.exec("delete from goverse.session where owner = $1", p.owner))
}

// long is the deadline of a session whose heartbeats are far apart.
const long = time.Minute

// A process that does not know yet that it has lost its claim cannot record its outcome any more: others have seen
// that it is unknown.
func TestOutcomeWithoutItsClaimIsRefused(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.start(s.url, long), s.start(s.url, 0)
	end := s.begin(a, "mail", func(ctx context.Context, _ int64) ([]byte, error) { return []byte("sent"), ctx.Err() })
	s.endSession(a)
	_, err := b.Once(s.ctx, "mail", never)
	token := requireUnknown(t, err, a.owner)
	require.Equal(t, token, requireUnknown(t, end().err, a.owner))
	found, err := b.Look(s.ctx, "mail")
	require.NoError(t, err)
	require.Equal(t, once.Unknown, found.State)
}

// claimGranted reports whether a process has a claim.
func (s *testBed) claimGranted(p *process) bool {
	s.Helper()
	return s.count(`select count(*) from goverse.claim c join goverse.session s on s.id = c.session
		where s.owner = $1 and c.token is not null`, p.owner) == 1
}

// claimWaits reports whether a process waits for a claim.
func (s *testBed) claimWaits(p *process) bool {
	s.Helper()
	return s.count(`select count(*) from goverse.claim c join goverse.session s on s.id = c.session
		where s.owner = $1 and c.token is null`, p.owner) == 1
}

func fails(context.Context, int64) ([]byte, error) { return nil, errRefused }

// A process whose claim is gone before its effect begins does not begin it, and gets another claim.
func TestBeginWithoutItsClaimIsRefused(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, b := s.start(s.url+"&pool_max_conns=1", long), s.start(s.url, 0)
	end := s.begin(b, "mail", fails)
	var n atomic.Int32
	ended := make(chan call, 1)
	go func() {
		r, err := a.Once(s.ctx, "mail", counts(&n, "sent"))
		ended <- call{r, err}
	}()
	s.eventually(func() bool { return s.claimWaits(a) })
	conn, err := a.pool.Acquire(s.ctx) // so that it cannot begin
	require.NoError(t, err)
	require.ErrorIs(t, end().err, errRefused)
	s.eventually(func() bool { return s.claimGranted(a) })
	s.endSession(a)
	_, err = b.Once(s.ctx, "mail", fails)
	require.ErrorIs(t, err, errRefused)
	failed, err := b.Look(s.ctx, "mail")
	require.NoError(t, err)
	conn.Release()
	c := <-ended
	require.NoError(t, c.err)
	require.True(t, c.Ran)
	require.EqualValues(t, 1, n.Load())
	require.Equal(t, 3, c.Attempt)
	require.Greater(t, c.Token, failed.Token, "the attempt has a claim of its own")
}

// relayed starts a process whose pool goes through a relay, and sends each statement at once.
func (s *testBed) relayed() (*process, *fault.Relay) {
	s.Helper()
	cfg, err := pgx.ParseConfig(s.url)
	require.NoError(s, err)
	address := net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port))
	r, err := fault.NewRelay(address)
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, r.Close()) })
	url := strings.Replace(s.url, address, r.Address(), 1) + "&pool_max_conns=1&default_query_exec_mode=exec"
	return s.start(url, 0), r
}

// hasState waits until an effect's mark has a state, and was written by a process.
func (s *testBed) hasState(name string, state once.State, by *process) {
	s.Helper()
	s.eventually(func() bool {
		return s.count("select count(*) from goverse.effect where name = $1 and state = $2 and owner = $3", name, state,
			by.owner) == 1
	})
}

// cut loses what the relay holds back.
func (s *testBed) cut(r *fault.Relay) {
	s.Helper()
	r.Refuse()
	require.NoError(s, r.Heal())
}

// The answer to each write of the mark is lost. The effect runs once, and its outcome is stored once.
func TestAnswersAreLost(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, relay := s.relayed()
	b := s.start(s.url, 0)

	// The answer that it begins.
	end := s.begin(b, "mail", fails)
	var n atomic.Int32
	inside, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan call, 1)
	go func() {
		r, err := a.Once(s.ctx, "mail", func(ctx context.Context, token int64) ([]byte, error) {
			close(inside)
			<-goOn
			return counts(&n, "sent")(ctx, token)
		})
		ended <- call{r, err}
	}()
	s.eventually(func() bool { return s.claimWaits(a) })
	relay.Blackhole(fault.FromTarget)
	require.ErrorIs(t, end().err, errRefused)
	s.hasState("mail", once.Running, a)
	s.cut(relay)
	select {
	case <-inside:
	case c := <-ended:
		require.FailNow(t, "the effect did not begin", "%v", c.err)
	}

	// The answer to the outcome.
	relay.Blackhole(fault.FromTarget)
	close(goOn)
	s.hasState("mail", once.Done, a)
	s.cut(relay)
	c := <-ended
	require.NoError(t, c.err)
	require.True(t, c.Ran)
	require.Equal(t, 2, c.Attempt)
	require.EqualValues(t, 1, n.Load())
	r, err := b.Once(s.ctx, "mail", never)
	require.NoError(t, err)
	require.Equal(t, c.Token, r.Token)

	// The answer to a resolution.
	require.Panics(t, func() { _, _ = a.Once(s.ctx, "unknown", never) })
	found, err := a.Look(s.ctx, "unknown")
	require.NoError(t, err)
	resolved := make(chan error, 1)
	tx, err := s.admin.Begin(s.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(s.ctx, "select 1 from goverse.effect where name = 'unknown' for update")
	require.NoError(t, err)
	go func() { resolved <- a.Resolve(s.ctx, "unknown", found.Token, true, []byte("found out")) }()
	s.eventually(func() bool { return s.waiting(tx) })
	relay.Blackhole(fault.FromTarget)
	require.NoError(t, tx.Commit(s.ctx))
	s.hasState("unknown", once.Done, a)
	s.cut(relay)
	require.NoError(t, <-resolved)
}

// waiting reports whether a statement waits for a transaction.
func (s *testBed) waiting(tx pgx.Tx) bool {
	var n int
	require.NoError(s, tx.QueryRow(s.ctx, `select count(*) from pg_locks where not granted
		and transactionid = pg_current_xact_id()::xid`).Scan(&n))
	return n == 1
}

// lateContext has ended once over is set. Its Done does not show that: goroutines that wait for it may be late.
type lateContext struct {
	context.Context
	over *atomic.Bool
}

func (c lateContext) Err() error {
	if c.over.Load() {
		return errRefused
	}
	return c.Context.Err()
}

// An effect does not begin if its caller has given up when the answer to the first write comes.
func TestGivenUpBeforeTheAnswer(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, relay := s.relayed()
	b := s.start(s.url, 0)
	end := s.begin(b, "mail", fails)
	ctx := lateContext{s.ctx, &atomic.Bool{}}
	ended := make(chan error, 1)
	go func() {
		_, err := a.Once(ctx, "mail", never)
		ended <- err
	}()
	s.eventually(func() bool { return s.claimWaits(a) })
	relay.Blackhole(fault.FromTarget)
	require.ErrorIs(t, end().err, errRefused)
	s.hasState("mail", once.Running, a)
	ctx.over.Store(true)
	require.NoError(t, relay.Heal()) // the answer comes
	require.ErrorIs(t, <-ended, errRefused)
	var n atomic.Int32
	r, err := b.Once(s.ctx, "mail", counts(&n, "sent"))
	require.NoError(t, err)
	require.True(t, r.Ran)
}

// A caller that gives up while its first write is in flight takes it back, whether it has arrived or arrives later:
// the effect did not begin, and all later callers know that.
func TestGivenUpBeforeItBegan(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a, relay := s.relayed()
	b := s.start(s.url, 0)
	for name, arrives := range map[string]bool{"it has arrived": true, "it arrives later": false} {
		end := s.begin(b, name, fails)
		ctx, cancel := context.WithCancelCause(s.ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := a.Once(ctx, name, never)
			ended <- err
		}()
		s.eventually(func() bool { return s.claimWaits(a) })
		if arrives {
			relay.Blackhole(fault.FromTarget)
		} else {
			relay.Blackhole(fault.ToTarget)
		}
		before := relay.Traffic(fault.ToTarget).Received
		require.ErrorIs(t, end().err, errRefused)
		if arrives {
			s.hasState(name, once.Running, a)
		} else {
			s.eventually(func() bool { return relay.Traffic(fault.ToTarget).Received > before })
		}
		cancel(errRefused)
		require.NoError(t, relay.Heal()) // what was held back arrives
		require.ErrorIs(t, <-ended, errRefused)
		var n atomic.Int32
		r, err := b.Once(s.ctx, name, counts(&n, "sent"))
		require.NoError(t, err, name)
		require.True(t, r.Ran)
	}
}

// The server crashes while the effect runs, and commits of the pool's connections need not be durable. The mark is
// not lost: the effect does not run again.
func TestServerCrashesInside(t *testing.T) {
	pace.Parallel(t)
	db := pgserver.StartForTest(t)
	s := newTestBedAt(t, db.URL())
	s.exec("alter system set wal_writer_delay = '10s'")
	s.exec("select pg_reload_conf()")
	a := s.start(s.url+"&synchronous_commit=off", long) // no heartbeat makes it durable
	_, err := a.Once(s.ctx, "mail", func(context.Context, int64) ([]byte, error) {
		return nil, db.RestartImmediately()
	})
	requireUnknown(t, err, a.owner)
	s = newTestBedAt(t, db.URL())
	require.Equal(t, 1, s.count("select count(*) from goverse.effect where name = 'mail' and state = 'running'"))
}

// A pool that leads to another database than the session is noticed, and so is a missing table.
func TestWrongDatabase(t *testing.T) {
	pace.Parallel(t)
	s, other := newTestBed(t), newTestBed(t)
	other.two()
	a := s.start(other.url, 0)
	_, err := a.Once(s.ctx, "mail", never)
	require.ErrorContains(t, err, "is not in the database of Config.DB")
	_, err = a.Look(s.ctx, "mail")
	require.ErrorIs(t, err, once.ErrNoMark)
	other.exec("drop table goverse.effect")
	_, err = a.Once(s.ctx, "mail", never)
	require.ErrorContains(t, err, "make the table with Effects.CreateTable")
	_, _, err = a.List(s.ctx, once.Query{})
	require.ErrorContains(t, err, "make the table with Effects.CreateTable")
}

// No connection of the pool is in use while an effect runs.
func TestPoolOfOneConnection(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a := s.start(s.url+"&pool_max_conns=1", 0)
	r, err := a.Once(s.ctx, "outer", func(ctx context.Context, _ int64) ([]byte, error) {
		var n atomic.Int32
		r, err := a.Once(ctx, "inner", counts(&n, "inner"))
		return r.Value, err
	})
	require.NoError(t, err)
	require.Equal(t, "inner", string(r.Value))
}

func TestBadConfig(t *testing.T) {
	pace.Parallel(t)
	s := newTestBed(t)
	a := s.start(s.url, 0)
	_, err := postgres.New(nil, postgres.Config{DB: a.pool})
	require.ErrorIs(t, err, postgres.ErrBadConfig)
	require.ErrorIs(t, postgres.Config{}.Validate(), postgres.ErrBadConfig)
	require.ErrorIs(t, postgres.Config{DB: a.pool, Retention: time.Second}.Validate(), postgres.ErrBadConfig)
	require.NoError(t, postgres.Config{DB: a.pool}.Validate())
}
