//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/pgserver"
)

const patience = 20 * time.Second

// TestMain: with the variable, this is the program.
func TestMain(m *testing.M) {
	if os.Getenv("OUTBOX_TEST_PROGRAM") != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"":                                   "there are create, sink",
		"publis":                             "there are create, sink",
		"publish":                            "give -postgres",
		"publish -postgres x -sink here":     "give it as http://host:port",
		"publish -postgres x -poll 0s":       "-poll must be above 0",
		"publish -postgres x y":              "too much",
		"publish -postgres x -sink http://y": "",
		"sink -postgres x":                   "",
		"order -postgres x -n 3":             "",
		"create -postgres x":                 "",
	} {
		_, err := parse(strings.Fields(line))
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
		}
	}
}

// scene is a server; each part of the test has a schema of its own.
type scene struct {
	server *pgserver.Server
	admin  *pgx.Conn
	last   atomic.Int64
}

// One server serves all.
func TestOutbox(t *testing.T) {
	server := pgserver.ForTest(t)
	admin, err := pgx.Connect(context.Background(), server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	s := &scene{server: server, admin: admin}
	t.Run("what an outbox is read by", s.readers)
	t.Run("transactions of all kinds", s.allKinds)
	t.Run("order of one row", s.orderOfOneRow)
	t.Run("who writes wakes", s.wakes)
	t.Run("cleaning", s.cleaning)
	t.Run("sink", s.sink)
	t.Run("publishers are killed and frozen", s.faults)
}

// database is an empty schema with the example's tables.
func (s *scene) database(t *testing.T) (db *pgxpool.Pool, url string) {
	t.Helper()
	ctx := testContext(t)
	name := fmt.Sprintf("test_%d", s.last.Add(1))
	_, err := s.admin.Exec(ctx, "create schema "+name)
	require.NoError(t, err)
	url = s.server.URL() + "&search_path=" + name
	db, err = pgxpool.New(ctx, url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	for _, sql := range []string{tables, tables, sinkTables, sinkTables} { // again is no harm
		_, err = db.Exec(ctx, sql)
		require.NoError(t, err)
	}
	return db, url
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// program starts the program.
func program(t *testing.T, args ...string) *fault.Process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "OUTBOX_TEST_PROGRAM=1")
	p, err := fault.StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		if t.Failed() {
			t.Logf("process %d, %s, said:\n%s", p.Pid(), args[0], p.Output())
		}
	})
	return p
}

func exec1(t *testing.T, db interface {
	Exec(ctx context.Context, sql string, args ...any) (tag, error)
}, sql string, args ...any) {
	t.Helper()
	_, err := db.Exec(testContext(t), sql, args...)
	require.NoError(t, err)
}
