// Package needed skips or fails tests and benchmarks that need a program which is not installed.
//
//	GOVERSE_REQUIRE=etcd34,postgres go test ./...   fails a test instead of skipping it if one of them is missing
//
// Not promised: that an installed program works.
package needed

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Env is the environment variable that lists, separated by commas, the programs that must not be missing.
const Env = "GOVERSE_REQUIRE"

// Required reports whether GOVERSE_REQUIRE names the program.
func Required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv(Env), ","), what)
}

// Missing ends a test that needs a missing program: it skips the test, or fails it if GOVERSE_REQUIRE names the
// program. problem describes the missing program and how to install it.
func Missing(t testing.TB, what, problem string) {
	t.Helper()
	if Required(what) {
		t.Fatalf("%s names %s: %s", Env, what, problem)
	}
	t.Skip(problem)
}
