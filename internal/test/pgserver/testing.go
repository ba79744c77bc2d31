//go:build unix

package pgserver

import (
	"errors"
	"testing"

	"github.com/goverse/goverse/internal/test/needed"
)

// testArgs are the settings of a server for tests: it does not write to the disk, and vacuums nothing, because the
// transactions of autovacuum can start at any time.
var testArgs = []string{"-c", "fsync=off", "-c", "autovacuum=off"}

// StartForTest is Start for a test; it closes the server when the test ends. Where PostgreSQL is not installed the
// test is skipped, or fails if GOVERSE_REQUIRE names postgres. fsync and autovacuum are off.
func StartForTest(t testing.TB) *Server {
	t.Helper()
	s, err := Start(testArgs...)
	if errors.Is(err, ErrNotInstalled) {
		needed.Missing(t, "postgres", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
