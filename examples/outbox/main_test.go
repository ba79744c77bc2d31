//go:build unix

package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/examples/internal/trial"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { trial.Main(m, main) }

func TestCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"--help":                             flag.ErrHelp.Error(),
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
		"publish -postgres x -alone":         "",
	} {
		_, err := parse(strings.Fields(line))
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
		}
	}
}

// testBed is a database server. Each part of the test has a schema of its own.
type testBed struct {
	server *pgserver.Server
	admin  *pgx.Conn
	last   atomic.Int64
}

// One server serves all parts.
func TestOutbox(t *testing.T) {
	server := pgserver.StartForTest(t)
	admin, err := pgx.Connect(context.Background(), server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	s := &testBed{server: server, admin: admin}
	t.Run("cleaning", s.cleaning)
	t.Run("sink", s.sink)
	t.Run("a database that falls silent", s.silent)
	t.Run("publishers are killed and frozen", s.faults)
	t.Run("the same without etcd", s.faultsAlone)
}

// database creates a schema with the example's tables.
func (s *testBed) database(t *testing.T) (db *pgxpool.Pool, url string) {
	t.Helper()
	ctx := etcdtest.Context(t)
	name := fmt.Sprintf("test_%d", s.last.Add(1))
	_, err := s.admin.Exec(ctx, "create schema "+name)
	require.NoError(t, err)
	url = s.server.URL() + "&search_path=" + name
	db, err = pgxpool.New(ctx, url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	for _, sql := range []string{tables, tables, sinkTables, sinkTables} { // creating them again is harmless
		_, err = db.Exec(ctx, sql)
		require.NoError(t, err)
	}
	return db, url
}
