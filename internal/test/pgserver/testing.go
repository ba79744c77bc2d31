//go:build unix

package pgserver

import (
	"errors"
	"testing"

	"github.com/goverse/goverse/internal/test/needed"
)

// StartForTest is Start for a test; it closes the server when the test ends. Where PostgreSQL is not installed the
// test is skipped, or fails if GOVERSE_REQUIRE names postgres. fsync is off, because such a test does not check
// the disk. So is autovacuum, because its transactions can start at any time.
func StartForTest(t testing.TB) *Server {
	t.Helper()
	s, err := Start("-c", "fsync=off", "-c", "autovacuum=off")
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
