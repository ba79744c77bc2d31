//go:build unix

package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/examples/bank/bankpb"
	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const patience = 20 * time.Second

// TestMain runs the program itself in processes started by package trial.
func TestMain(m *testing.M) { trial.Main(m, main) }

func free(t *testing.T) string {
	t.Helper()
	address, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	return address
}

// launch starts a node.
func launch(t *testing.T, address, database string, args ...string) *fault.Process {
	t.Helper()
	return trial.Program(t, append([]string{"-listen", address, "-postgres", database}, args...)...)
}

// ready waits until a node is ready.
func ready(t *testing.T, p *fault.Process) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.Output(), "msg=ready") }, patience,
		5*time.Millisecond)
}

func newClient(t *testing.T, addresses ...string) *client {
	t.Helper()
	b, err := dial(strings.Join(addresses, ","), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.close()) })
	return b
}

// connect connects to the database, so that the test can read it.
func connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(context.Background(), url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

// number returns the single number that a query yields.
func number(t *testing.T, db *pgxpool.Pool, sql string) (n int64) {
	t.Helper()
	require.NoError(t, db.QueryRow(etcdtest.Context(t), sql).Scan(&n))
	return n
}

// One process is enough; commands call it.
func TestOneCommand(t *testing.T) {
	t.Parallel()
	database := pgserver.StartForTest(t).URL()
	at := free(t)
	p := launch(t, at, database, "-etcd-listen", free(t))
	ready(t, p)
	for _, c := range []struct{ line, says string }{
		{"open ann 100", "DONE"},
		{"open ann 100", "ALREADY_OPEN"},
		{"open bob 5", "DONE"},
		{"-id t1 transfer ann bob 30", "transfer t1\nDONE"},
		{"-id t1 transfer ann bob 30", "transfer t1\nDONE"},
		{"balance ann", "70"},
		{"balance bob", "35"},
		{"-id t2 transfer bob ann 36", "transfer t2\nINSUFFICIENT_FUNDS"},
		{"-id t3 transfer ann cid 1", "transfer t3\nUNKNOWN_ACCOUNT"},
		{"-id t4 transfer cid ann 1", "transfer t4\nUNKNOWN_ACCOUNT"},
		{"open cid 9", "DONE"},
		{"transfer cid ann 9", "DONE"},
		{"-id t3 transfer ann cid 1", "transfer t3\nUNKNOWN_ACCOUNT"}, // an answer never changes
		{"-id t4 transfer cid ann 1", "transfer t4\nUNKNOWN_ACCOUNT"},
		{"balance ann", "79"},
		{"balance cid", "0"},
	} {
		order := trial.Program(t, append([]string{"-nodes", at}, strings.Fields(c.line)...)...)
		code, err := order.Exit(etcdtest.Context(t))
		require.NoError(t, err)
		require.Contains(t, order.Output(), c.says, c.line)
		require.Equal(t, strings.Contains(c.says, "_"), code != 0, "what is refused has no good end: %s", order.Output())
	}
	b, ctx := newClient(t, at), etcdtest.Context(t)
	_, err := b.balance(ctx, "dan")
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = b.transfer(ctx, "t1", &bankpb.RunRequest{From: "ann", To: "bob", Amount: 31})
	require.Equal(t, codes.AlreadyExists, status.Code(err))
	for _, bad := range []*bankpb.RunRequest{
		{From: "ann", To: "ann", Amount: 1}, {From: "ann", To: "bob"}, {From: "ann", To: "bob", Amount: -1},
		{From: "ann", To: "bob", Amount: maxAmount + 1}, {To: "bob", Amount: 1}, {From: "ann", To: "b\x00b", Amount: 1},
	} {
		_, err := b.transfer(ctx, "t5", bad)
		require.Equal(t, codes.InvalidArgument, status.Code(err), bad)
	}
	_, err = b.transfer(ctx, "tü", &bankpb.RunRequest{From: "ann", To: "bob", Amount: 1})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "no id of a request")
	db := connect(t, database)
	require.EqualValues(t, 114, number(t, db, "select sum(amount)::bigint from bank_ledger"))
	require.Zero(t, number(t, db, "select count(*) from bank_unfinished"))
	trial.StopWithin(t, patience, p)
}

// A transfer's node is killed between the two halves and its caller is gone. The transfer is finished
// nevertheless.
func TestTransferIsResumed(t *testing.T) {
	t.Parallel()
	etcd, database := etcdtest.Start(t), pgserver.StartForTest(t).URL()
	at := free(t)
	p := launch(t, at, database, "-etcd", etcd.Endpoint())
	ready(t, p)
	b, db := newClient(t, at), connect(t, database)
	for _, name := range []string{"ann", "bob"} {
		outcome, err := b.open(etcdtest.Context(t), name, 100)
		require.NoError(t, err)
		require.Equal(t, bankpb.Outcome_DONE, outcome)
	}

	// The lock prevents changes of bob's account for now.
	tx, err := db.Begin(etcdtest.Context(t))
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(etcdtest.Context(t), "select from goverse_objects where service = 'bank.Account' and key = 'bob' "+
		"for update")
	require.NoError(t, err)
	calling, leave := context.WithCancel(etcdtest.Context(t))
	defer leave()
	ended := make(chan error, 1)
	go func() {
		_, err := b.transfer(calling, "t1", &bankpb.RunRequest{From: "ann", To: "bob", Amount: 30})
		ended <- err
	}()
	require.Eventually(t, func() bool {
		return number(t, db, "select count(*) from bank_ledger where request = 't1'") == 1
	}, patience, 5*time.Millisecond)
	_, err = p.Kill()
	require.NoError(t, err)
	leave()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.EqualValues(t, 170, number(t, db, "select sum(amount)::bigint from bank_ledger"), "30 are in flight")
	require.EqualValues(t, 1, number(t, db, "select count(*) from bank_unfinished"))

	require.NoError(t, tx.Rollback(etcdtest.Context(t)))
	p = launch(t, at, database, "-etcd", etcd.Endpoint())
	require.Eventually(t, func() bool { return strings.Contains(p.Output(), "msg=resumed") }, patience,
		5*time.Millisecond)
	for name, want := range map[string]int64{"ann": 70, "bob": 130} {
		balance, err := b.balance(etcdtest.Context(t), name)
		require.NoError(t, err)
		require.Equal(t, want, balance, name)
	}
	require.EqualValues(t, 200, number(t, db, "select sum(amount)::bigint from bank_ledger"))
	require.Zero(t, number(t, db, "select count(*) from bank_unfinished"))
	trial.StopWithin(t, patience, p)
}
