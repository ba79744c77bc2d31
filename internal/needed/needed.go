// Package needed is for tests that need a program which may not be installed.
//
//	GOVERSE_REQUIRE=etcd34,postgres go test ./...   fails where it would skip for want of them
//
// Not promised: that what is there works.
package needed

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// env lists what must not be missing.
const env = "GOVERSE_REQUIRE"

// Missing ends a test that needs what is not there: it skips it, or fails it if GOVERSE_REQUIRE
// names it. problem says what is missing and how to come by it.
func Missing(t testing.TB, what, problem string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(env), ","), what) {
		t.Fatalf("%s names %s: %s", env, what, problem)
	}
	t.Skip(problem)
}
