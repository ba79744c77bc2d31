package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/needed"
)

// As process 1 of a container, goversed leaves no zombies: neither descendants of a command, nor processes
// started beside it (docker exec).
func TestNoZombiesAsProcess1(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").Run(); err != nil {
		needed.Missing(t, "pidns", "no namespace of process ids can be made here: be root, with unshare of util-linux: "+
			err.Error())
	}
	server := etcdtest.Start(t)
	self, err := os.Executable()
	require.NoError(t, err)
	const forAMinute = "; sleep 60"
	const orphans = `for i in $(seq 20); do (sleep 0.02 &); done; echo made`
	for _, test := range []struct {
		name, said string
		args       []string
	}{
		{"exec", "made", []string{"exec", "--election", "it", "--etcd", server.Endpoint(), "--", "sh", "-c",
			orphans + forAMinute}},
		{"lock", "made", []string{"lock", "it", "--etcd", server.Endpoint(), "--", "sh", "-c", orphans + forAMinute}},
		{"node", "leader", []string{"node", "--etcd", server.Endpoint(), "--listen", "127.0.0.1:0", "--http", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("unshare", append([]string{"--pid", "--fork", "--kill-child", "--mount-proc", self},
				test.args...)...)
			cmd.Env = append(os.Environ(), runGoversedEnv+"=1")
			var out logtest.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			require.NoError(t, cmd.Start())
			defer func() {
				_ = cmd.Process.Kill() // and its child
				_ = cmd.Wait()
			}()
			first := func() int { return onlyChildOf(t, cmd.Process.Pid) }
			out.Await(t, test.said)
			beside := exec.Command("nsenter", "--pid", "--target", strconv.Itoa(first()), "sh", "-c", orphans)
			said, err := beside.CombinedOutput()
			require.NoError(t, err, "%s", said)
			var zombies, left int
			assert.Eventually(t, func() bool {
				zombies, left = countOrphans(t, first())
				return zombies == 0 && left == 0
			}, 20*time.Second, 20*time.Millisecond)
			t.Logf("%d zombies", zombies)
			require.NoError(t, syscall.Kill(first(), syscall.SIGTERM))
			_ = cmd.Wait() // it exits with the command's status
		})
	}
}

// onlyChildOf returns the only child of a process.
func onlyChildOf(t *testing.T, pid int) int {
	t.Helper()
	id := strconv.Itoa(pid)
	text, err := os.ReadFile(filepath.Join("/proc", id, "task", id, "children"))
	require.NoError(t, err)
	children := strings.Fields(string(text))
	require.Len(t, children, 1)
	child, err := strconv.Atoi(children[0])
	require.NoError(t, err)
	return child
}

// countOrphans counts the zombies in the namespace of a process, and the processes that run the orphans'
// command.
func countOrphans(t *testing.T, pid int) (zombies, orphans int) {
	t.Helper()
	namespace, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns", "pid"))
	require.NoError(t, err)
	parents := map[string]string{}
	states := map[string]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		id := filepath.Base(filepath.Dir(file))
		parents[id], states[id] = fields[1], fields[0]
		if in, err := os.Readlink(filepath.Join("/proc", id, "ns", "pid")); err == nil && in == namespace {
			if line, err := os.ReadFile(filepath.Join("/proc", id, "cmdline")); err == nil &&
				string(line) == "sleep\x000.02\x00" {
				orphans++
			}
		}
	}
	for id, state := range states { // a zombie has no namespace any more, but still has ancestors
		if state != "Z" {
			continue
		}
		for at := id; at != "" && at != "0"; at = parents[at] {
			if at == strconv.Itoa(pid) {
				zombies++
				break
			}
		}
	}
	return zombies, orphans
}
