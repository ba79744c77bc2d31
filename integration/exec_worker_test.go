//go:build linux

package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goverse/goverse/integration/internal/procs"
)

// A worker is the command that goversed runs in these tests: a copy of the test binary that records every few
// milliseconds that it works, and under which token.
const (
	workerDir = "WORKER_DIR" // its output directory; makes the process a worker
	workerHow = "WORKER_HOW" // its behaviour, as words separated by commas
)

// The behaviours of a worker.
const (
	stubborn = "stubborn" // it ignores SIGTERM
	forks    = "forks"    // it has a stubborn child that works in its group
	escapes  = "escapes"  // it has such a child in a session of its own
	leaves   = "leaves"   // it exits with code 7 once that child works
)

// beat is the interval between two records; line is the length of one.
const (
	beat = 3 * time.Millisecond
	line = 20
)

func init() {
	if dir := os.Getenv(workerDir); dir != "" {
		os.Exit(work(dir, strings.Split(os.Getenv(workerHow), ",")))
	}
}

// monotonic returns the time of a clock that all processes share.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

func work(dir string, how []string) int {
	if slices.Contains(how, stubborn) {
		signal.Ignore(syscall.SIGTERM)
	}
	name := fmt.Sprintf("%s-%d-%d", os.Getenv("GOVERSE_TOKEN"), os.Getpid(), os.Getppid())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	for _, kind := range []string{forks, escapes} {
		if !slices.Contains(how, kind) {
			continue
		}
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), workerHow+"="+stubborn)
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: kind == escapes}
		if err := child.Start(); err != nil {
			panic(err)
		}
		for slices.Contains(how, leaves) {
			if at, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("*-%d-*",
				child.Process.Pid))); err == nil && len(at) > 0 {
				return 7
			}
		}
	}
	for again := time.NewTicker(beat); ; <-again.C {
		if _, err := fmt.Fprintf(f, "%0*d\n", line-1, int64(monotonic())); err != nil {
			panic(err)
		}
	}
}

// workPeriod is the time during which one worker worked, according to its records.
type workPeriod struct {
	token       int64
	pid, parent int
	from, to    time.Duration
}

// readWorkPeriods reads the workers' records.
func readWorkPeriods(t *testing.T, dir string) []workPeriod {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []workPeriod
	for _, file := range files {
		var s workPeriod
		_, err := fmt.Sscanf(file.Name(), "%d-%d-%d", &s.token, &s.pid, &s.parent)
		require.NoError(t, err)
		f, err := os.Open(filepath.Join(dir, file.Name()))
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		if info.Size() < line {
			require.NoError(t, f.Close())
			continue // it has not started
		}
		for at, into := range map[int64]*time.Duration{0: &s.from, info.Size()/line*line - line: &s.to} {
			text := make([]byte, line-1)
			_, err := f.ReadAt(text, at)
			require.NoError(t, err)
			n, err := strconv.ParseInt(string(text), 10, 64)
			require.NoError(t, err)
			*into = time.Duration(n)
		}
		require.NoError(t, f.Close())
		if info.Size() < 2*line {
			s.from = s.to
		}
		out = append(out, s)
	}
	return out
}

// overlappingPeriods is the judge: it returns the pairs of workers with different tokens that worked at the same time.
// It is independent of goversed.
func overlappingPeriods(all []workPeriod) []string {
	var out []string
	for i, a := range all {
		for _, b := range all[:i] {
			if a.token != b.token && a.from <= b.to && b.from <= a.to {
				out = append(out, fmt.Sprintf("%+v and %+v, for %v", a, b, min(a.to, b.to)-max(a.from, b.from)))
			}
		}
	}
	return out
}

// workBench holds the workers' output directory of one test, and the lock that they compete for.
type workBench struct {
	*testing.T
	etcd string
	db   string // URL of the PostgreSQL in place of etcd, "" for none
	dir  string
	name string

	running *procs.Process // for tests that keep one process
}

func newWorkBench(t *testing.T, etcd *procs.Etcd) *workBench {
	t.Helper()
	b := &workBench{T: t, etcd: etcd.Endpoint, dir: t.TempDir(), name: t.Name()}
	t.Cleanup(func() { require.Empty(t, overlappingPeriods(readWorkPeriods(t, b.dir)), "two at work") })
	return b
}

// command returns the command that runs a worker.
func (b *workBench) command(how ...string) []string {
	self, err := os.Executable()
	require.NoError(b, err)
	return []string{"env", workerDir + "=" + b.dir, workerHow + "=" + strings.Join(how, ","), self}
}

// exec starts goversed exec with a worker.
func (b *workBench) exec(ttl time.Duration, flags []string, how ...string) *procs.Process {
	b.Helper()
	args := slices.Concat([]string{"exec", "--election", b.name, "--ttl", ttl.String()}, b.storeFlags(), flags,
		[]string{"--"}, b.command(how...))
	return kit.Goversed(b.T, args...)
}

// lock starts goversed lock with any command.
func (b *workBench) lock(flags []string, command ...string) *procs.Process {
	b.Helper()
	args := slices.Concat([]string{"lock", b.name, "--ttl", longTTL.String()}, b.storeFlags(), flags, []string{"--"},
		command)
	return kit.Goversed(b.T, args...)
}

// storeFlags returns the flags that name etcd or PostgreSQL.
func (b *workBench) storeFlags() []string {
	if b.db != "" {
		return []string{"--postgres", b.db}
	}
	return []string{"--etcd", b.etcd, "--prefix", procs.Prefix}
}

// awaitAtWork waits until n workers of one token larger than after are at work, and returns them.
func (b *workBench) awaitAtWork(after int64, n int) []workPeriod {
	b.Helper()
	var found []workPeriod
	procs.Await(b.T, patience, fmt.Sprintf("%d at work after token %d", n, after), func() error {
		tokens := map[int64][]workPeriod{}
		for _, s := range readWorkPeriods(b.T, b.dir) {
			if s.token > after {
				tokens[s.token] = append(tokens[s.token], s)
			}
		}
		for _, token := range slices.Sorted(maps.Keys(tokens)) {
			if found = tokens[token]; len(found) == n {
				slices.SortFunc(found, func(x, y workPeriod) int { return int(x.from - y.from) })
				return nil
			}
		}
		return errors.New("not yet")
	})
	return found
}

// awaitQueued waits until n candidates are in the election's queue.
func (b *workBench) awaitQueued(etcd *procs.Etcd, n int) {
	b.Helper()
	client := etcd.Client(b.T, "", "")
	procs.Await(b.T, patience, "they queue", func() error {
		count := 0
		for key := range procs.Keys(b.T, client, procs.Prefix+"/elections/") {
			if strings.Contains(key, "/"+url.PathEscape(b.name)+"/") {
				count++
			}
		}
		return equal("candidates", count, n)
	})
}

// The judge must be able to detect an overlap.
func TestTheJudgeSeesTwoAtWork(t *testing.T) {
	t.Parallel()
	b := &workBench{T: t, dir: t.TempDir()}
	for token := range 2 {
		kit.Start(t, "worker", "env", append([]string{fmt.Sprintf("GOVERSE_TOKEN=%d", token+1)}, b.command()[1:]...), nil)
	}
	procs.Await(t, patience, "the judge sees it", func() error {
		if len(overlappingPeriods(readWorkPeriods(t, b.dir))) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	require.Empty(t, overlappingPeriods([]workPeriod{{token: 1, from: 1, to: 2}, {token: 2, from: 3, to: 4},
		{token: 2, from: 3, to: 5}}))
}
