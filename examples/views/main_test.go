//go:build unix

package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { trial.Main(m, main) }

func TestCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"":                                  "there are create, serve",
		"--help":                            flag.ErrHelp.Error(),
		"serv":                              "there are create, serve",
		"serve":                             "give -postgres",
		"serve -postgres x y":               "too much",
		"serve -postgres x -poll 0s":        "-poll must be above 0",
		"serve -postgres x -views y":        "there are totals, products, latest",
		"rebuild -postgres x":               "which view?",
		"rebuild -postgres x y":             "there are totals, products, latest",
		"rebuild -postgres x totals":        "",
		"serve -postgres x -views latest":   "",
		"serve -postgres x":                 "",
		"serve -postgres x -alone":          "",
		"buy -postgres x -n 3":              "",
		"create -postgres x":                "",
		"rebuild -postgres x totals totals": "named twice",
	} {
		_, err := parse(strings.Fields(line))
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
		}
	}
}

func TestDecode(t *testing.T) {
	for body, good := range map[string]bool{
		`{"kind": "bought", "customer": "ann", "product": "tea", "pieces": 2, "cents": 350}`:     true,
		`{"kind": "returned", "customer": "ann", "product": "tea", "pieces": 2, "cents": 350}`:   true,
		`{"kind": "stolen", "customer": "ann", "product": "tea", "pieces": 2, "cents": 350}`:     false,
		`{"kind": "bought", "customer": "ann", "product": "tea", "pieces": "two", "cents": 350}`: false,
		`{"kind": "bought", "customer": "ann", "product": "tea", "pieces": 0, "cents": 350}`:     false,
		`{"kind": "bought", "customer": "ann", "product": "tea", "piece": 2, "cents": 350}`:      false,
		`7`: false,
	} {
		_, err := decode([]byte(body))
		if good {
			require.NoError(t, err, body)
		} else {
			require.ErrorIs(t, err, processor.ErrPoison, body)
		}
	}
}

var says = regexp.MustCompile(`serving: url=(\S+)`)

// ask reads a page of a copy, if the copy serves.
func ask(p *fault.Process, path string, into any) error {
	at := says.FindStringSubmatch(p.Output())
	if at == nil {
		return io.EOF
	}
	answer, err := http.Get(at[1] + path)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return json.NewDecoder(answer.Body).Decode(into)
}

// write runs one transaction: fast or slow, committed or rolled back.
func write(ctx context.Context, db *pgxpool.Pool) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for range 1 + rand.IntN(10) {
		if err := addPurchase(ctx, tx, somePurchase()); err != nil {
			return err
		}
		if rand.IntN(10) == 0 {
			if _, err := tx.Exec(ctx, "select pg_sleep(random() / 20)"); err != nil {
				return err
			}
		}
	}
	if rand.IntN(5) == 0 {
		return nil // rolled back
	}
	return tx.Commit(ctx)
}

// stuck returns when the view's processor is in the middle of a batch and waits for a row, which is locked
// until release.
func stuck(t *testing.T, db *pgxpool.Pool, v view) (release func()) {
	t.Helper()
	ctx := etcdtest.Context(t)
	var tx pgx.Tx
	// A transaction that locks a row gets a number and thereby delays all later events. If the row is not among
	// those that the processor has already read, the attempt must be repeated.
	require.Eventually(t, func() (waits bool) {
		var err error
		tx, err = db.Begin(ctx)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, "select from "+v.table()+" limit 1 for update")
		require.NoError(t, err)
		_, err = tx.Exec(ctx, "select pg_sleep(0.03)")
		require.NoError(t, err)
		require.NoError(t, db.QueryRow(ctx, "select exists (select from pg_locks where not granted and locktype = "+
			"'transactionid')").Scan(&waits))
		if !waits {
			require.NoError(t, tx.Rollback(ctx))
		}
		return waits
	}, patience, 10*time.Millisecond, "nobody changes view %s", v.name)
	return func() { require.NoError(t, tx.Rollback(ctx)) }
}

// Three copies keep the views while events are written. The keeper of each view is killed in the middle of a
// batch, twice. One view is corrupted and rebuilt, and one event is poison. At the end each view equals the
// result of one statement over the events.
func TestEachEventOnceInEachView(t *testing.T) {
	t.Parallel()
	t.Run("with etcd", func(t *testing.T) {
		t.Parallel()
		eachEventOnce(t, "-etcd", etcdtest.Start(t).Endpoint(), "-ttl", "1")
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		eachEventOnce(t, "-alone", "-ttl", "1")
	})
}

func eachEventOnce(t *testing.T, coordination ...string) {
	server := pgserver.StartForTest(t)
	db, err := pgxpool.New(etcdtest.Context(t), server.URL())
	require.NoError(t, err)
	t.Cleanup(db.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	trial.Succeeds(t, trial.Program(t, "create", "-postgres", server.URL()))
	trial.Succeeds(t, trial.Program(t, "create", "-postgres", server.URL()))

	var copies []*fault.Process
	start := func(more ...string) {
		args := slices.Concat([]string{"serve", "-postgres", server.URL()}, coordination, more)
		copies = append(copies, trial.Program(t, args...))
	}
	// keeper returns the copy that keeps a view. Two may claim that for a moment; then it is the one with the
	// larger token.
	keeper := func(v view) (who *fault.Process, is httpapi.ProcessorView) {
		for _, p := range copies {
			var all httpapi.Processors
			if !p.Running() || ask(p, "/cluster/processors", &all) != nil {
				continue
			}
			for _, s := range all.Processors {
				if s.Name == v.processor() && s.Leading && s.Token > is.Token {
					who, is = p, s
				}
			}
		}
		return who, is
	}
	// busy waits until a copy with a larger token keeps the view and has handled events.
	busy := func(v view, after int64) (who *fault.Process, token int64) {
		require.Eventually(t, func() bool {
			p, s := keeper(v)
			who, token = p, s.Token
			return p != nil && s.Token > after && s.Handled > 0
		}, patience, 10*time.Millisecond, "nobody keeps view %s after token %d", v.name, after)
		return who, token
	}
	settled := func() {
		t.Helper()
		for _, v := range views {
			if !assert.Eventually(t, func() bool { return judge(context.Background(), db, v) == nil }, patience,
				20*time.Millisecond) {
				t.Fatal(judge(context.Background(), db, v))
			}
		}
	}

	end := trial.Meanwhile(t, 3, 20*time.Millisecond, func(ctx context.Context) error { return write(ctx, db) })
	start("-views", "latest")
	_, _ = busy(views[2], 0)
	start()
	first, _ := busy(views[0], 0)
	start()
	latest, _ := busy(views[2], 0)
	require.NotSame(t, first, latest, "the views spread")
	for range 2 {
		for _, v := range views {
			p, token := busy(v, 0)
			release := stuck(t, db, v)
			_, err := p.Kill()
			require.NoError(t, err)
			release()
			start()
			busy(v, token)
		}
	}
	// A view is corrupted and rebuilt while it is kept; an event is poison.
	_, err = db.Exec(etcdtest.Context(t), "begin; lock table view_totals in exclusive mode; update view_totals set "+
		"cents = -1; commit")
	require.NoError(t, err)
	trial.Succeeds(t, trial.Program(t, "rebuild", "-postgres", server.URL(), "totals"))
	_, err = db.Exec(etcdtest.Context(t),
		`insert into events (body) values ('{"kind": "bought", "customer": "ann", "product": "tea", "pieces": "two"}')`)
	require.NoError(t, err)
	end()
	settled()
	judgeJudged(t, db)

	// Without further events, a view is rebuilt nevertheless.
	_, err = db.Exec(etcdtest.Context(t), "update view_latest set kind = 'spoilt'")
	require.NoError(t, err)
	trial.Succeeds(t, trial.Program(t, "rebuild", "-postgres", server.URL(), "latest"))
	settled()

	any := copies[len(copies)-1]
	for _, v := range views {
		var parked []processor.Parked
		require.Eventually(t, func() bool {
			require.NoError(t, ask(any, "/views/"+v.name+"/parked", &parked))
			return len(parked) == 1
		}, patience, 10*time.Millisecond)
		require.Contains(t, parked[0].Error, "cannot be handled")
	}
	_, is := keeper(views[1])
	require.EqualValues(t, 1, is.Parked, "and it is counted")
	var top []struct {
		Product string
		Pieces  int64
	}
	require.NoError(t, ask(any, "/views/products", &top))
	require.NotEmpty(t, top)
	require.GreaterOrEqual(t, top[0].Pieces, top[len(top)-1].Pieces)
	var n int
	require.NoError(t, db.QueryRow(etcdtest.Context(t), "select count(*) from events").Scan(&n))
	t.Logf("%d events", n)

	trial.Stop(t, copies...)
}

// A database that stops responding during a change of a view is reported, and does not keep a copy from ending.
func TestSilentDatabase(t *testing.T) {
	t.Parallel()
	server := pgserver.StartForTest(t)
	db, err := pgxpool.New(etcdtest.Context(t), server.URL())
	require.NoError(t, err)
	t.Cleanup(db.Close)
	etcd := etcdtest.Start(t)
	relay, err := fault.NewRelay(server.Address())
	require.NoError(t, err)
	defer relay.Close()
	trial.Succeeds(t, trial.Program(t, "create", "-postgres", server.URL()))
	lock, err := db.Begin(etcdtest.Context(t))
	require.NoError(t, err)
	defer func() { _ = lock.Rollback(context.Background()) }()
	// A stronger lock would get a transaction number and delay the reads.
	_, err = lock.Exec(etcdtest.Context(t), "lock table view_totals in exclusive mode")
	require.NoError(t, err)
	require.NoError(t, writePurchases(etcdtest.Context(t), db, 1))

	p := trial.Program(t, "serve", "-views", "totals", "-etcd", etcd.Endpoint(),
		"-postgres", strings.Replace(server.URL(), server.Address(), relay.Address(), 1))
	require.Eventually(t, func() (waits bool) {
		require.NoError(t, db.QueryRow(etcdtest.Context(t),
			"select exists (select from pg_locks where not granted)").Scan(&waits))
		return waits
	}, patience, 5*time.Millisecond)
	relay.Blackhole(fault.Both)
	require.Eventually(t, func() bool {
		return strings.Contains(p.Output(), "processor=views/totals") && strings.Contains(p.Output(), "deadline exceeded")
	},
		patience, 5*time.Millisecond)
	trial.StopWithin(t, patience/2, p)
}
