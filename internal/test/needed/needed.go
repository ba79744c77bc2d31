// Package needed is for tests and benchmarks that need a program which may not be installed.
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

// Env names, with commas between, what must not be missing.
const Env = "GOVERSE_REQUIRE"

// Required reports whether GOVERSE_REQUIRE names what.
func Required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv(Env), ","), what)
}

// Missing ends a test that needs what is not there: it skips it, or fails it if GOVERSE_REQUIRE
// names it. problem says what is missing and how to come by it.
func Missing(t testing.TB, what, problem string) {
	t.Helper()
	if Required(what) {
		t.Fatalf("%s names %s: %s", Env, what, problem)
	}
	t.Skip(problem)
}
