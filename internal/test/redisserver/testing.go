//go:build unix

package redisserver

import (
	"errors"
	"testing"

	"github.com/goverse/goverse/internal/test/needed"
)

// StartForTest is Start for a test; it closes the server when the test ends. Where redis-server is not installed the
// test is skipped, or fails if GOVERSE_REQUIRE names redis.
func StartForTest(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := Start(args...)
	if errors.Is(err, ErrNotInstalled) {
		needed.Missing(t, "redis", err.Error())
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
