//go:build unix

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/internal/test/needed"
)

// Shared is a server that the tests of a package share, each with a database of its own. The server starts with the
// first of them. The zero value is ready to use. All methods are safe for concurrent use.
//
//	var shared pgserver.Shared
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }
//
// A test that stops or configures the server starts one of its own, with [StartForTest].
type Shared struct {
	once      sync.Once
	server    *Server
	err       error
	databases atomic.Int64
}

// Database is a database of a shared server.
type Database struct {
	server *Server
	name   string
}

// databaseTimeout limits the creation and the removal of a database.
const databaseTimeout = time.Minute

// Database creates an empty database, which is dropped when the test has ended. Where PostgreSQL is not installed the
// test is skipped, as by [StartForTest].
func (s *Shared) Database(t testing.TB) *Database {
	t.Helper()
	server := s.Server(t)
	d := &Database{server, fmt.Sprint("test", s.databases.Add(1))}
	if err := execAt(server.URL(), "CREATE DATABASE "+d.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := execAt(server.URL(), "DROP DATABASE "+d.name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Server returns the server itself. Tests must not stop it.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	s.once.Do(func() { s.server, s.err = Start(testArgs...) })
	if errors.Is(s.err, ErrNotInstalled) {
		needed.Missing(t, "postgres", s.err.Error())
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Tests returns an m whose Run closes the server after the tests.
func (s *Shared) Tests(m *testing.M) interface{ Run() int } { return sharedTests{m, s} }

type sharedTests struct {
	m      *testing.M
	shared *Shared
}

func (t sharedTests) Run() int {
	code := t.m.Run()
	if t.shared.server == nil {
		return code
	}
	if err := t.shared.server.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}

// URL returns the URL of the database.
func (d *Database) URL() string {
	return strings.Replace(d.server.URL(), "/postgres?", "/"+d.name+"?", 1)
}

// Address returns the host:port that the server listens on.
func (d *Database) Address() string { return d.server.Address() }

func execAt(url, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}
