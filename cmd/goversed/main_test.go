package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/test/leaktest"
	"github.com/goverse/goverse/internal/test/logtest"
)

func TestMain(m *testing.M) {
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// runResult is the outcome of a command line.
type runResult struct {
	code           int
	stdout, stderr string
}

// runGoversed runs a command line that ends by itself.
func runGoversed(t *testing.T, env map[string]string, args ...string) runResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var stdout, stderr logtest.Buffer
	code := runCommandLine(ctx, args, envLookup(env), &stdout, &stderr)
	require.NoError(t, ctx.Err(), "it did not end by itself")
	return runResult{code, stdout.String(), stderr.String()}
}

func envLookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

// requireOneLine fails unless the error is one line that contains the texts.
func requireOneLine(t *testing.T, r runResult, code int, says ...string) {
	t.Helper()
	require.Equal(t, code, r.code, r.stderr)
	require.Empty(t, r.stdout)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), "one line: %q", r.stderr)
	require.True(t, strings.HasPrefix(r.stderr, "goversed: "), r.stderr)
	for _, s := range says {
		require.Contains(t, r.stderr, s)
	}
	require.NotContains(t, r.stderr, "goroutine ")
	if code == cli.ExitUsage {
		require.Contains(t, r.stderr, "--help\n")
	}
}
