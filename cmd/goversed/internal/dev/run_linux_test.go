package dev

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/porttest"
)

// outputRecorder stores the output and lets a test wait for parts of it.
type outputRecorder struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newOutputRecorder() *outputRecorder { return &outputRecorder{changed: make(chan struct{}, 1)} }

func (r *outputRecorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return r.text.Write(p)
}

func (r *outputRecorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// awaitMatch blocks until the output matches, and returns the groups.
func (r *outputRecorder) awaitMatch(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		if m := re.FindStringSubmatch(r.String()); m != nil {
			return m
		}
		select {
		case <-r.changed:
		case <-limit.C:
			require.FailNow(t, "not said: "+pattern, r.String())
		}
	}
}

// runningDev is a Run in the background, in a temporary directory of its own.
type runningDev struct {
	out  *outputRecorder
	temp string
	stop context.CancelFunc
	done chan error
}

func startRun(t *testing.T, cfg Config) *runningDev {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	if cfg.Command == nil {
		cfg.Command = []string{self, "node"}
	}
	r := &runningDev{out: newOutputRecorder(), temp: t.TempDir(), done: make(chan error, 1)}
	t.Setenv("TMPDIR", r.temp)
	cfg.Stdout = r.out
	if cfg.TTL == 0 {
		cfg.TTL = 10 * time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.done <- Run(ctx, cfg) }()
	t.Cleanup(func() { cancel(); <-r.done })
	return r
}

// waitStopped waits for Run's own end.
func (r *runningDev) waitStopped(t *testing.T) error {
	t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	select {
	case err := <-r.done:
		r.done <- nil
		return err
	case <-limit.C:
		require.FailNow(t, "it did not end", r.out.String())
		return nil
	}
}

// requireNothingLeft fails if a process, port or file is left.
func (r *runningDev) requireNothingLeft(t *testing.T) {
	t.Helper()
	text := r.out.String()
	for _, m := range regexp.MustCompile(`process (\d+)`).FindAllStringSubmatch(text, -1) {
		requireGone(t, m[1])
	}
	for _, m := range regexp.MustCompile(`127\.0\.0\.1:[23]\d{4}`).FindAllString(text, -1) {
		porttest.RequireFree(t, m)
	}
	requireEmpty(t, r.temp)
}

func requireGone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Kill(n, 0), syscall.ESRCH, "process %d must be gone", n)
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// After each of three real kills there is another leader long before the TTL is over. Its time is printed, and
// the summary counts the kills.
func TestRunKillsLeadersAndMeasures(t *testing.T) {
	const bound = 5 * time.Second // less than half of the TTL: the lease cannot have expired
	r := startRun(t, Config{Nodes: 3, KillEvery: 100 * time.Millisecond})
	r.out.awaitMatch(t, `the first leader, \d+ ms after the start|the first leader, \d\.\d+ s after the start`)
	r.out.awaitMatch(t, `(?s)(leads .*after the kill.*){3}`)
	r.stop()
	require.NoError(t, r.waitStopped(t))
	text := r.out.String()
	after := regexp.MustCompile(`leads \(token (\d+)\), ([\d.]+) (m?s) after the kill: `+
		`(\S+) was removed by`).FindAllStringSubmatch(text, -1)
	require.GreaterOrEqual(t, len(after), 3, text)
	killed := regexp.MustCompile(`(\S+) killed: the leader with token (\d+)`).FindAllStringSubmatch(text, -1)
	for i, m := range after {
		require.Equal(t, killed[i][1], m[4])
		took, err := time.ParseDuration(m[2] + m[3])
		require.NoError(t, err)
		require.Less(t, took, bound)
		before, _ := strconv.Atoi(killed[i][2])
		token, _ := strconv.Atoi(m[1])
		require.Greater(t, token, before)
	}
	require.Regexp(t, `\d+ leaders killed; from the kill to the next leader: min \S+ m?s, p50 \S+ m?s, max \S+ m?s`, text)
	require.Regexp(t, `replaced: process \d+ at the same address`, text)
	require.NotContains(t, text, "ended by itself")
	r.requireNothingLeft(t)
}

func TestRunEndsByItselfAndReplacesWhoEnds(t *testing.T) {
	r := startRun(t, Config{Nodes: 2, For: 10 * time.Second}) // time for all of it on a busy machine
	first := r.out.awaitMatch(t, `(\S+) started: process (\d+)`)
	r.out.awaitMatch(t, `(?ms)\S+ joined$.*\S+ joined$`)
	r.out.awaitMatch(t, `(?s)8192 shards assigned to [^\n]+\n.*all 8192 shards are served`)
	pid, err := strconv.Atoi(first[2])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	r.out.awaitMatch(t, regexp.QuoteMeta(first[1])+` ended by itself \(signal: killed.*\), to be replaced at once`)
	r.out.awaitMatch(t, `(?s)replaced: process .* `+regexp.QuoteMeta(first[1])+` joined`)
	require.NoError(t, r.waitStopped(t))
	text := r.out.String()
	require.Contains(t, text, "10s are over, stopping")
	require.NotContains(t, text, "killed;", "a summary of nothing")
	require.NotContains(t, text, "killing what has not stopped")
	require.Regexp(t, `handed over: \S+ is stopping|no leader: \S+ is stopping`, text)
	r.requireNothingLeft(t)
}

// The timeline of a terminal has events and no log, unless that is asked for. A taken port of etcd is replaced.
func TestRunShowsNoLogLines(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	at := taken.Addr().String()
	r := startRun(t, Config{Nodes: 1, EtcdListen: at, OtherPort: true, DefaultEtcd: at, Color: true,
		Terminal: func() (int, int) { return 200, 50 }})
	r.out.awaitMatch(t, `\x1b\[1;32m +\d+\.\d+s  \S+ leads \(token \d+\)[^\n]*\x1b\[0m\n`)
	r.stop()
	require.NoError(t, r.waitStopped(t))
	require.NotContains(t, r.out.String(), "joined at", "the log's line")
	require.Contains(t, r.out.String(), at+" is taken: etcd has another port, so give --etcd to the other commands\n")
	require.Regexp(t, ` status --etcd 127\.0\.0\.1:\d+\n`, r.out.String())
}

// At the address that commands look at anyway, none needs --etcd.
func TestGreetingAtTheDefault(t *testing.T) {
	cfg := Config{Nodes: 3, TTL: 10 * time.Second, Program: "goversed", DefaultEtcd: "127.0.0.1:2379"}
	require.Equal(t, "  goversed status", greetingLines(cfg, "127.0.0.1:2379", "h:1")[2])
	require.Equal(t, "  goversed status --etcd 127.0.0.1:2380", greetingLines(cfg, "127.0.0.1:2380", "h:1")[2])
}

// A failure shows the last lines of the nodes' logs.
func TestRunShowsLogsAfterAFailure(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	r := startRun(t, Config{Nodes: 1, Command: []string{self, "never"}})
	require.Error(t, r.waitStopped(t))
	require.Regexp(t, `(?m)^\[127\.0\.0\.1:\d+\] these words are the last$`, r.out.String())
}

// The log lines of a node show its address, and respect the log level.
func TestRunPassesLogsOn(t *testing.T) {
	logs := newOutputRecorder()
	r := startRun(t, Config{Nodes: 1, Verbose: true, Stderr: logs})
	logs.awaitMatch(t, `\[127\.0\.0\.1:\d+\] joined at info`)
	r.stop()
	require.NoError(t, r.waitStopped(t))
	require.NotContains(t, r.out.String(), "joined at")
	r.requireNothingLeft(t)
}

func TestRunFailsWithTheNodesLastWords(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		command []string
		want    string
	}{
		"ends at once": {[]string{self, "never"}, "these words are the last"},
		"no program":   {[]string{filepath.Join(t.TempDir(), "none"), "node"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRun(t, Config{Nodes: 1, Command: tc.command})
			err := r.waitStopped(t)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
			r.requireNothingLeft(t)
		})
	}
}

// A node that ignores the request to leave is killed if the user is in a hurry.
func TestRunHurries(t *testing.T) {
	hurry := make(chan struct{})
	r := startRun(t, Config{Nodes: 1, Hurry: hurry})
	pid, err := strconv.Atoi(r.out.awaitMatch(t, `started: process (\d+)`)[1])
	require.NoError(t, err)
	r.out.awaitMatch(t, `leads`)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	r.stop()
	r.out.awaitMatch(t, `stopping`)
	close(hurry)
	require.NoError(t, r.waitStopped(t))
	require.Contains(t, r.out.String(), "in a hurry: killing what still runs")
	require.Contains(t, r.out.String(), "ended (signal: killed") // its last line may follow
	r.requireNothingLeft(t)
}

func TestRunEndsWhenNobodyReads(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, Run(context.Background(), Config{Nodes: 1, TTL: 2 * time.Second, Command: []string{self, "node"},
		Stdout: brokenPipe{}, Stderr: io.Discard}))
}

// If the parent is killed, its nodes die, too.
func TestNodesDieWithTheirParent(t *testing.T) {
	temp := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	parent := exec.Command(self, "parent")
	parent.Env = append(os.Environ(), "TMPDIR="+temp)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	var pids []string
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "leads") {
		if m := regexp.MustCompile(`started: process (\d+)`).FindStringSubmatch(lines.Text()); m != nil {
			pids = append(pids, m[1])
		}
	}
	require.Len(t, pids, 2)
	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	for _, pid := range pids {
		n, _ := strconv.Atoi(pid)
		require.Eventually(t, func() bool { return isProcessDead(n) }, 5*time.Second, 10*time.Millisecond,
			"node %s outlived its parent", pid)
	}
	left, err := filepath.Glob(filepath.Join(temp, tempPattern+"*"))
	require.NoError(t, err)
	require.Len(t, left, 1)
	sweepTempDirs(temp, time.Now().Add(time.Minute))
	requireEmpty(t, temp)
}

// isProcessDead reports whether a process is gone, or a zombie without a waiting parent.
func isProcessDead(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	_, after, _ := bytes.Cut(status, []byte(") "))
	return bytes.HasPrefix(after, []byte("Z"))
}
