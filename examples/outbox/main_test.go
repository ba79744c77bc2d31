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
	"github.com/goverse/goverse/internal/test/pace"
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

		"publish -postgres x -alone -prefix /y":          "-alone does without etcd, so leave out -prefix",
		"publish -postgres x -alone -listen y:1 -etcd z": "so leave out -etcd, -listen",
	} {
		_, err := parse(strings.Fields(line))
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
		}
	}
}

// testBed is a database server. Each use of it has a schema of its own.
type testBed struct {
	server *pgserver.Server
	admin  *pgx.Conn
	last   atomic.Int64
}

func newTestBed(t *testing.T) *testBed {
	t.Helper()
	server := pgserver.StartForTest(t)
	admin, err := pgx.Connect(context.Background(), server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	return &testBed{server: server, admin: admin}
}

// Each part has a server of its own: a row is published when all older transactions of the server have ended.
func TestOutbox(t *testing.T) {
	for _, part := range []struct {
		name string
		f    func(s *testBed, t *testing.T)
	}{
		{"cleaning", (*testBed).cleaning},
		{"sink", (*testBed).sink},
		{"a database that falls silent", (*testBed).silent},
		{"publishers are killed and frozen", (*testBed).faults},
		{"the same without etcd", (*testBed).faultsAlone},
	} {
		t.Run(part.name, func(t *testing.T) {
			pace.Parallel(t)
			part.f(newTestBed(t), t)
		})
	}
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
