//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// shared is the server of the tests that do not stop it.
var shared pgserver.Shared

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(shared.Tests(m))
}

// A candidate is used like one of a cluster's.
var (
	_ processor.Candidate                      = (*postgres.Candidate)(nil)
	_ processor.Elections[*postgres.Candidate] = (*postgres.Elections)(nil)
)

const patience = time.Minute

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// process is a session with its elections.
type process struct {
	*postgres.Elections
	session *pgsession.Session
	owner   string
}

func open(t testing.TB, db interface{ URL() string }, owner string, opts ...postgres.Option) *process {
	t.Helper()
	s, err := pgsession.Open(patient(t), pgsession.Config{URL: db.URL(), Owner: owner, Deadline: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(patient(t))) })
	return &process{postgres.New(s, opts...), s, owner}
}

func (p *process) stand(t testing.TB, name string) *postgres.Candidate {
	t.Helper()
	c, err := p.Stand(name)
	require.NoError(t, err)
	return c
}

// leads waits until a candidate leads.
func leads(t testing.TB, c *postgres.Candidate) leaderelection.Term {
	t.Helper()
	require.Eventually(t, c.IsLeader, patience, time.Millisecond)
	term, ok := c.Term()
	require.True(t, ok)
	return term
}

// follows waits until a view has that queue.
func follows(t testing.TB, e interface{ Queue() []string }, queue ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return fmt.Sprint(e.Queue()) == fmt.Sprint(queue) }, patience, time.Millisecond)
}

func TestElections(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	a, b, other := open(t, db, "a"), open(t, db, "b"), open(t, db, "other")
	ca := a.stand(t, "it")
	first := leads(t, ca)
	require.True(t, first.Valid())
	require.Equal(t, "a", ca.Leader().Address)
	require.Same(t, ca, a.stand(t, "it"))
	cb := b.stand(t, "it")
	follows(t, cb, "a", "b")
	seen, err := other.Observe("it")
	require.NoError(t, err)
	follows(t, seen, "a", "b")
	require.Equal(t, first.Token(), seen.Leader().Token)
	watch, err := seen.Watch(patient(t))
	require.NoError(t, err)
	require.Equal(t, "a", (<-watch).Address)
	require.False(t, cb.IsLeader())
	require.ErrorIs(t, cb.Resign(patient(t)), leaderelection.ErrNotLeader)
	require.ErrorIs(t, cb.AsLeader(patient(t), nil), leaderelection.ErrNotLeader)

	began := time.Now()
	require.NoError(t, ca.Resign(patient(t)))
	second := leads(t, cb)
	t.Logf("the next one leads %v after the resignation began", time.Since(began))
	require.Greater(t, second.Token(), first.Token())
	require.False(t, first.Valid())
	require.Equal(t, leaderelection.ReasonResigned, leaderelection.ReasonOf(context.Cause(first.Context())))
	follows(t, seen, "b", "a")
	for l := range watch {
		if l.Address == "b" {
			break
		}
	}
	require.NoError(t, b.session.Close(patient(t)))
	third := leads(t, ca)
	require.Greater(t, third.Token(), second.Token())
	require.Equal(t, leaderelection.ReasonStopped, leaderelection.ReasonOf(context.Cause(second.Context())))
	_, err = b.Stand("it")
	require.ErrorIs(t, err, leaderelection.ErrStopped)
	_, err = b.Observe("it")
	require.ErrorIs(t, err, leaderelection.ErrStopped)

	require.NoError(t, ca.Close(patient(t)))
	require.ErrorIs(t, ca.Lead(patient(t), nil), leaderelection.ErrWithdrawn)
	follows(t, seen)
	require.NoError(t, seen.Close())
	_, err = seen.Watch(patient(t))
	require.ErrorIs(t, err, leaderelection.ErrClosed)
	_, err = a.Stand("")
	require.ErrorIs(t, err, leaderelection.ErrBadName)
	_, err = a.Stand("it", leaderelection.Priority(1))
	require.ErrorContains(t, err, "no priorities")
	leads(t, a.stand(t, "it"))
}

func TestList(t *testing.T) {
	db := pgserver.StartForTest(t)
	a, b := open(t, db, "a"), open(t, db, "b")
	first := a.stand(t, "x/%")
	term := leads(t, first)
	b.stand(t, "x/%")
	leads(t, b.stand(t, "y"))
	follows(t, first, "a", "b")
	conn, err := pgx.Connect(patient(t), db.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(patient(t))) }()
	all, more, err := postgres.List(patient(t), conn, "", leaderelection.Query{})
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, all, 2)
	require.Equal(t, leaderelection.Standing{Name: "x/%", Leader: leaderelection.Leader{Address: "a", Token: term.Token(),
		Mode: leaderelection.ModeElection, Member: true, Lease: all[0].Leader.Lease}, Length: 2,
		Candidates: []leaderelection.Standby{{Address: "a", Member: true}, {Address: "b", Member: true}}}, all[0])
	one, err := postgres.Read(patient(t), conn, "", "x/%")
	require.NoError(t, err)
	require.Equal(t, all[0], one)
	part, more, err := postgres.List(patient(t), conn, "", leaderelection.Query{Limit: 1, Candidates: 1})
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []leaderelection.Standby{{Address: "a", Member: true}}, part[0].Candidates)
	require.Equal(t, 2, part[0].Length)
	rest, more, err := postgres.List(patient(t), conn, "", leaderelection.Query{After: "x/%"})
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, all[1:], rest)
	none, err := postgres.Read(patient(t), conn, "", "none")
	require.NoError(t, err)
	require.Equal(t, leaderelection.Standing{Name: "none", Candidates: []leaderelection.Standby{}}, none)
}

// A leader that gives way waits for its functions, and a fenced transaction keeps the next one from leading.
func TestWorkOfATerm(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	a, b := open(t, db, "a"), open(t, db, "b")
	ca := a.stand(t, "it")
	leads(t, ca)
	cb := b.stand(t, "it")
	follows(t, ca, "a", "b")
	entered, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	go func() {
		ended <- ca.AsLeader(patient(t), func(ctx context.Context, _ leaderelection.Term) error {
			close(entered)
			<-goOn
			return ctx.Err()
		})
	}()
	<-entered
	inLead := make(chan struct{})
	go func() {
		ended <- ca.Lead(patient(t), func(ctx context.Context, _ leaderelection.Term) error {
			close(inLead)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-inLead
	resigned := make(chan error, 1)
	go func() { resigned <- ca.Resign(patient(t)) }()
	require.ErrorIs(t, <-ended, leaderelection.ErrTermOver, "Lead's function ends with the term")
	require.False(t, ca.IsLeader())
	require.Empty(t, resigned)
	require.False(t, cb.IsLeader())
	close(goOn)
	require.NoError(t, <-ended, "that of AsLeader does not")
	require.NoError(t, <-resigned)
	term := leads(t, cb)

	conn, err := pgx.Connect(patient(t), db.URL())
	require.NoError(t, err)
	tx, err := conn.Begin(patient(t))
	require.NoError(t, err)
	require.NoError(t, postgres.Fence(patient(t), tx, term))
	go func() { resigned <- cb.Resign(patient(t)) }()
	require.Eventually(t, func() bool { return !cb.IsLeader() }, patience, time.Millisecond)
	require.False(t, ca.IsLeader())
	require.NoError(t, tx.Commit(patient(t)))
	require.NoError(t, <-resigned)
	leads(t, ca)
	require.ErrorIs(t, postgres.Fence(patient(t), conn, term), leaderelection.ErrTermOver)
	require.ErrorIs(t, postgres.Fence(patient(t), conn, nil), postgres.ErrForeign)
	require.NoError(t, conn.Close(patient(t)))
}

// A function that goes on after its context has ended is not waited for forever, and reported.
func TestWorkThatGoesOn(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	a, b := open(t, db, "a", postgres.WorkTimeout(50*time.Millisecond)), open(t, db, "b")
	ca := a.stand(t, "it")
	leads(t, ca)
	cb := b.stand(t, "it")
	goOn, ended := make(chan struct{}), make(chan error, 1)
	entered := make(chan struct{})
	go func() {
		ended <- ca.Lead(patient(t), func(context.Context, leaderelection.Term) error { close(entered); <-goOn; return nil })
	}()
	<-entered
	require.ErrorIs(t, ca.Withdraw(patient(t)), leaderelection.ErrWorkRuns)
	leads(t, cb)
	close(goOn)
	require.NoError(t, <-ended)
	require.NoError(t, ca.Withdraw(patient(t)))
}

// A leader whose connection ends loses the term, and leads again when it is first in the queue.
func TestSessionOfTheLeaderIsLost(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	a, b := open(t, db, "a"), open(t, db, "b")
	ca := a.stand(t, "it")
	term := leads(t, ca)
	cb := b.stand(t, "it")
	follows(t, ca, "a", "b")
	conn, err := pgx.Connect(patient(t), db.URL())
	require.NoError(t, err)
	_, err = conn.Exec(patient(t), `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN goverse.session s
		ON l.locktype = 'advisory' AND l.classid::bigint = s.id >> 32 AND l.objid::bigint = s.id & 4294967295
		WHERE s.owner = 'a'`)
	require.NoError(t, err)
	next := leads(t, cb)
	require.Greater(t, next.Token(), term.Token())
	require.ErrorIs(t, context.Cause(term.Context()), session.ErrLost)
	follows(t, cb, "b", "a")
	require.NoError(t, cb.Resign(patient(t)))
	leads(t, ca)
	require.NoError(t, conn.Close(patient(t)))
}

// A processor leads by an election, and by a lock, in PostgreSQL as in etcd.
func TestProcessorLeads(t *testing.T) {
	pace.Parallel(t)
	db := shared.Database(t)
	a, b := open(t, db, "a"), open(t, db, "b")
	lead := func(p *process) (led <-chan int64, stop func()) {
		tokens, ended := make(chan int64, 1), make(chan error, 1)
		ctx, cancel := context.WithCancel(patient(t))
		go func() {
			ended <- processor.Election(p.Elections, "it").Lead(ctx, func(ctx context.Context, token int64) error {
				tokens <- token
				<-ctx.Done()
				return nil
			})
		}()
		return tokens, func() { cancel(); <-ended }
	}
	led, stop := lead(a)
	first := <-led
	next, stopNext := lead(b)
	stop()
	require.Greater(t, <-next, first)
	stopNext()
}
