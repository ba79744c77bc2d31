//go:build unix

package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
)

// fullPipe returns a pipe that has no reader and is full.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	// The rest of a page is filled with bytes. Twice, because this process may have been paused meanwhile.
	for _, size := range []int{4096, 4096, 1, 1} {
		for err = nil; err == nil; {
			require.NoError(t, w.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
			_, err = w.Write(make([]byte, size))
		}
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.NoError(t, syscall.SetNonblock(int(w.Fd()), false)) // writers block
	return w
}

// startWithFullPipe starts goversed with a full pipe as its log.
func startWithFullPipe(t *testing.T, args ...string) (p *os.Process, ended <-chan error) {
	t.Helper()
	cmd := exec.Command(kit.GoversedPath(t), args...)
	cmd.Stderr = fullPipe(t)
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd.Process, done
}

// A node with a blocked log joins, leads, reports its status, and stops on request.
func TestANodeBehindAFullPipe(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	at := kit.Addresses(t, 2)
	p, ended := startWithFullPipe(t, "node", "--listen", at[0], "--http", at[1], "--etcd", etcd.Endpoint, "--prefix",
		procs.Prefix, "--stop-timeout", "5s", "--log-level", "trace")
	n := kit.NodeAt(t, nil, at[0], at[1])
	procs.Await(t, patience, "it leads", func() error {
		st, err := n.Status(t.Context())
		if err == nil && !st.IsLeader {
			err = errors.New(st.State)
		}
		return err
	})
	procs.Await(t, patience, "its log is seen to hang", func() error {
		stalled, err := n.Metric(t.Context(), "goverse_log_stalled_seconds")
		if err == nil && stalled == 0 {
			err = errors.New("it takes lines")
		}
		return err
	})
	began := time.Now()
	require.NoError(t, p.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		require.NoError(t, err)
		t.Logf("it ended after %v", time.Since(began))
	case <-time.After(15 * time.Second):
		t.Fatal("it does not end")
	}
}

// A command under exec gets the signal and its time to end. exec returns its exit code and resigns.
func TestExecBehindAFullPipe(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	for _, verb := range [][]string{{"exec", "--election", "it"}, {"lock", "it"}} {
		dir := t.TempDir()
		begun, gone := filepath.Join(dir, "begun"), filepath.Join(dir, "gone")
		// The shell must not report signalled children into the pipe.
		script := fmt.Sprintf(`exec 2>&-; trap 'sleep 0.5; echo > %s; exit 7' TERM; echo > %s
			while :; do sleep 0.05; done`, gone, begun)
		exists := func(path string) func() error { return func() error { _, err := os.Stat(path); return err } }
		p, ended := startWithFullPipe(t, append(verb, "--etcd", etcd.Endpoint, "--prefix", procs.Prefix, "--log-level",
			"trace",
			"--ttl", "60s", "--", "sh", "-c", script)...)
		procs.Await(t, patience, "the command runs", exists(begun))
		began := time.Now()
		require.NoError(t, p.Signal(syscall.SIGTERM))
		select {
		case err := <-ended:
			require.EqualError(t, err, "exit status 7", verb)
			require.NoError(t, exists(gone)(), "it had its time")
			t.Logf("%s ended after %v", verb[0], time.Since(began))
		case <-time.After(15 * time.Second):
			t.Fatalf("%s does not end; the command has had its signal: %v", verb[0], exists(gone)() == nil)
		}
		began = time.Now()
		next := kit.Goversed(t, append(verb, "--etcd", etcd.Endpoint, "--prefix", procs.Prefix, "--", "true")...)
		require.Zero(t, next.Exit(t, patience), "what it held is free, long before its TTL")
		t.Logf("another one took %v", time.Since(began))
	}
}
