package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/reaper"
)

// runGoversedEnv in the environment makes this test binary run as goversed, because dev starts its nodes from its
// own file.
const runGoversedEnv = "GOTEST_AS_GOVERSED"

func init() {
	if os.Getenv(runGoversedEnv) != "" {
		if status, done := reaper.Run(); done {
			os.Exit(status)
		}
		os.Exit(runCommandLine(context.Background(), os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
	}
}

// runDevProcess runs a command line in a process of its own, in a temporary directory
// that must be empty afterwards.
func runDevProcess(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	temp := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(append(os.Environ(), runGoversedEnv+"=1", "TMPDIR="+temp), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code shows the error
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestDevRunsKillsMeasuresAndEnds(t *testing.T) {
	t.Parallel()
	// The first variables would break the nodes if they reached them.
	stdout, stderr, code := runDevProcess(t, []string{"GOVERSE_ADVERTISE=127.0.0.1:1", "GOVERSE_WEIGHT=-1",
		"GOVERSE_FOR=3s"},
		"dev", "--kill-leader-every", "500ms")
	require.Zero(t, code, stderr)
	require.Regexp(t, `leads \(token \d+\), the first leader, (\d+|\d\.\d) ms after the start|`+
		`the first leader, [012]\.\d\d s after the start`, stdout)
	require.Len(t, regexp.MustCompile(`started: process \d+`).FindAllString(stdout, -1), 3)
	require.Regexp(t, `killed: the leader with token \d+`, stdout)
	require.Regexp(t, `leads \(token \d+\), \S+ m?s after the kill: `, stdout)
	require.Regexp(t, `(?m)^\d+ leaders? killed; from the kill to the next leader: min .* p50 .* max `, stdout)
	require.Regexp(t, `(?m)^etcd at 127\.0\.0\.1:\d+, 3 node processes`, stdout)
	if strings.Contains(stdout, "etcd at "+defaultEtcd+",") { // no other program had it
		require.Regexp(t, `(?m)^  \S.* status$`, stdout)
	} else {
		require.Contains(t, stdout, defaultEtcd+" is taken: etcd has another port")
		require.Regexp(t, `status --etcd 127\.0\.0\.1:\d+`, stdout)
	}
	require.NotContains(t, stdout, "\x1b", "no terminal")
	require.NotContains(t, stdout, "ended by itself")
}

// An address of etcd that is given is not replaced by another one.
func TestDevAtATakenAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	_, stderr, code := runDevProcess(t, nil, "dev", "--etcd-listen", l.Addr().String())
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, "goversed: --etcd-listen "+l.Addr().String()+" is taken: stop the process")
}

func TestDevRefusesBadFlags(t *testing.T) {
	for _, args := range [][]string{{"--nodes", "0"}, {"--nodes", "1000"}, {"--ttl", "0s"}, {"--ttl", "1500ms"}, {"--for",
		"-1s"},
		{"--for", "soon"}, {"--kill-leader-every", "-1s"}, {"--node", "3"}} {
		requireOneLine(t, runGoversed(t, nil, append([]string{"dev"}, args...)...), cli.ExitUsage, args[0])
	}
	requireOneLine(t, runGoversed(t, map[string]string{"GOVERSE_NODES": "0"}, "dev"), cli.ExitUsage, "--nodes")
}

func TestProgramName(t *testing.T) {
	require.Equal(t, "go run ./cmd/goversed", programName("/tmp/go-build123/b001/exe/goversed",
		"/tmp/go-build123/b001/exe/goversed"))
	inCache := "/var/gocache/1b/" + strings.Repeat("1b", 32) + "-d/goversed"
	require.Equal(t, "go run ./cmd/goversed", programName(inCache, inCache))
	require.Equal(t, "./goversed", programName("/home/me/goversed", "./goversed"))
}

func TestTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { require.NoError(t, null.Close()) }()
	_, ok := terminalSize(null, "xterm")
	require.False(t, ok)
	_, ok = terminalSize(&bytes.Buffer{}, "xterm")
	require.False(t, ok)
}
