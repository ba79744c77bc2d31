package etcdtest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/internal/test/etcdtest/etcdcontrol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServersAreApart(t *testing.T) {
	ctx, one, other := Context(t), Start(t), Start(t)
	_, err := one.Client().Put(ctx, "key", "value")
	require.NoError(t, err)
	resp, err := other.Client().Get(ctx, "key")
	require.NoError(t, err)
	require.Empty(t, resp.Kvs)
	require.NoError(t, one.Close())
	require.NoError(t, one.Close())
	_, err = net.Dial("tcp", one.Endpoint())
	require.Error(t, err)
	_, err = other.Client().Get(ctx, "key")
	require.NoError(t, err)
}

func TestRestartWithItsData(t *testing.T) {
	ctx := Context(t)
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "etcd")}
	s, err := StartWith(ctx, cfg)
	require.NoError(t, err)
	_, err = s.Client().Put(ctx, "key", "value")
	require.NoError(t, err)
	_, err = StartWith(ctx, cfg)
	require.ErrorContains(t, err, "another running server uses it")
	require.NoError(t, s.Close())
	cfg.ListenClient = s.Endpoint()
	again, err := StartWith(ctx, cfg)
	require.NoError(t, err)
	require.Equal(t, s.Endpoint(), again.Endpoint())
	resp, err := again.Client().Get(ctx, "key")
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	require.NoError(t, again.Close())
}

// The process of the etcds ends when its parent ends, whose end closes the pipe, and leaves no data.
func TestEtcdsEndWithTheTestProcess(t *testing.T) {
	program, err := buildServer()
	require.NoError(t, err)
	cmd, temp := exec.Command(program), t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "TMP="+temp)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	resp, err := etcdcontrol.Call(Context(t), strings.TrimSpace(address), etcdcontrol.Request{Start: &Config{}})
	require.NoError(t, err)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	_, err = net.Dial("tcp", resp.Endpoint)
	require.Error(t, err)
	left, err = os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The program is built again if a file of its source changes, and not otherwise.
func TestUpToDate(t *testing.T) {
	dir := t.TempDir()
	program, record, source := filepath.Join(dir, "p"), filepath.Join(dir, "r"), filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, []byte("package main"), 0o600))
	line, err := describeFile(source)
	require.NoError(t, err)
	require.NoError(t, writeFile(record, line+"\n"))
	require.False(t, upToDate(program, record), "no program")
	require.NoError(t, os.WriteFile(program, nil, 0o600))
	require.True(t, upToDate(program, record))
	changed := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(source, changed, changed))
	require.False(t, upToDate(program, record))
	require.NoError(t, os.Remove(source))
	require.False(t, upToDate(program, record))
	require.NoError(t, os.Remove(record))
	require.False(t, upToDate(program, record))

	first, err := buildServer()
	require.NoError(t, err)
	text, err := os.ReadFile(strings.TrimSuffix(first, ".exe") + ".sources")
	require.NoError(t, err)
	require.Contains(t, string(text), filepath.Join("embedetcd", "server.go"))
	require.Contains(t, string(text), "go.mod")
}

func TestOldProgramsAreRemoved(t *testing.T) {
	dir, old := t.TempDir(), keep+time.Hour
	for name, age := range map[string]time.Duration{"new": time.Hour, "old": old, "old.lock": old} {
		file, built := filepath.Join(dir, name), time.Now().Add(-age)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, os.Chtimes(file, built, built))
	}
	require.NoError(t, removeOld(dir))
	require.FileExists(t, filepath.Join(dir, "new"))
	require.NoFileExists(t, filepath.Join(dir, "old"))
	require.FileExists(t, filepath.Join(dir, "old.lock"))
}
