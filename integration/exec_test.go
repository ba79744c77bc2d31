//go:build linux

package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
)

// shortTTL is little more than the smallest TTL that etcd grants with its default timing, because sessions must
// survive on a busy machine.
const shortTTL = 3 * time.Second

// Whether goversed, its guard or the command is killed: the next command works only after nothing of this one
// is left, and soon.
func TestExecKilled(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	for name, c := range map[string]struct {
		ttl  time.Duration // if it is long, the TTL does not explain the result
		how  []string
		kill func(t *testing.T, a *procs.Process, worker workPeriod)
		code int // goversed's exit code; -1 if goversed itself was killed
	}{
		"goversed": {longTTL, nil, func(t *testing.T, a *procs.Process, _ workPeriod) { a.Kill(t) }, -1},
		"goversed of a stubborn one with children": {longTTL, []string{stubborn, forks},
			func(t *testing.T, a *procs.Process, _ workPeriod) { a.Kill(t) }, -1},
		"command": {longTTL, nil, func(t *testing.T, _ *procs.Process, w workPeriod) {
			require.NoError(t, syscall.Kill(w.pid, syscall.SIGKILL))
		}, 137},
		"command with children": {longTTL, []string{forks},
			func(t *testing.T, _ *procs.Process, w workPeriod) {
				require.NoError(t, syscall.Kill(w.pid, syscall.SIGKILL))
			}, 137},
		"guard": {longTTL, nil, func(t *testing.T, _ *procs.Process, w workPeriod) {
			require.NoError(t, syscall.Kill(w.parent, syscall.SIGKILL))
		}, 137},
		"guard of a stubborn one with children": {longTTL, []string{stubborn, forks},
			func(t *testing.T, _ *procs.Process, w workPeriod) {
				require.NoError(t, syscall.Kill(w.parent, syscall.SIGKILL))
			}, 137},
		"goversed and guard": {shortTTL, []string{stubborn}, func(t *testing.T, a *procs.Process, w workPeriod) {
			a.Freeze(t) // so that it does not see the end of its guard
			require.NoError(t, syscall.Kill(w.parent, syscall.SIGKILL))
			a.Kill(t)
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBench(t, etcd)
			workers := 1
			if len(c.how) > 0 && c.how[len(c.how)-1] == forks {
				workers = 2
			}
			first := b.exec(c.ttl, []string{"--stop-timeout", "300ms"}, c.how...)
			at := b.awaitAtWork(0, workers)[0]
			b.exec(c.ttl, nil)
			b.awaitQueued(etcd, 2)
			began := time.Now()
			c.kill(t, first, at)
			next := b.awaitAtWork(at.token, 1)[0]
			t.Logf("the next one works after %v", time.Since(began))
			require.Equal(t, c.code, first.Exit(t, patience))
			for _, s := range readWorkPeriods(t, b.dir) {
				require.True(t, s.token != at.token || s.to < next.from, "%+v, %+v", s, next)
			}
		})
	}
}

// While etcd is unavailable, no command works after the deadline. When it is back, one does.
func TestExecWithoutEtcd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how        []string
		away, back func(t *testing.T, e *procs.Etcd)
	}{
		"killed": {nil, func(t *testing.T, e *procs.Etcd) { e.Kill(t) }, func(t *testing.T, e *procs.Etcd) { e.Restart(t) }},
		"killed, stubborn with children": {[]string{stubborn, forks}, func(t *testing.T, e *procs.Etcd) { e.Kill(t) },
			func(t *testing.T, e *procs.Etcd) { e.Restart(t) }},
		"frozen": {nil, func(t *testing.T, e *procs.Etcd) { e.Freeze(t) }, func(t *testing.T, e *procs.Etcd) { e.Thaw(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := kit.StartEtcd(t, procs.Etcd37)
			b := newWorkBench(t, etcd)
			workers := 1 + len(c.how)/2
			first := b.exec(shortTTL, nil, c.how...)
			at := b.awaitAtWork(0, workers)[0]
			second := b.exec(shortTTL, nil, c.how...)
			b.awaitQueued(etcd, 2)
			c.away(t, etcd)
			gone := monotonic()
			procs.Await(t, patience, "the command is ended", func() error { return alive(at.pid) })
			for _, s := range readWorkPeriods(t, b.dir) {
				require.Equal(t, at.token, s.token)
				t.Logf("the last sign of life came %v after etcd went", s.to-gone)
				require.Less(t, s.to-gone, shortTTL, "before the deadline, which counts from a renewal before that")
			}
			c.back(t, etcd)
			again := b.awaitAtWork(at.token, workers)
			t.Logf("with etcd back, the first one works %v after the last sign of life", again[0].from-gone)
			require.True(t, first.Running() && second.Running(), "both went on trying")
		})
	}
}

// alive returns an error if the process exists, for Await.
func alive(pid int) error {
	if syscall.Kill(pid, 0) == nil {
		return fmt.Errorf("process %d lives", pid)
	}
	return nil
}

// goversed is paused for longer than its TTL, but its guard is not.
func TestExecPaused(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	for name, how := range map[string][]string{"stubborn": {stubborn}, "with children": {stubborn, forks}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBench(t, etcd)
			first := b.exec(shortTTL, nil, how...)
			at := b.awaitAtWork(0, len(how))[0]
			b.exec(shortTTL, nil)
			b.awaitQueued(etcd, 2)
			first.Freeze(t)
			next := b.awaitAtWork(at.token, 1)[0]
			for _, s := range readWorkPeriods(t, b.dir) {
				require.True(t, s.token != at.token || s.to < next.from, "%+v, %+v", s, next)
			}
			first.Thaw(t)
			b.awaitQueued(etcd, 2) // it queues again and leaves the other one working
			require.Less(t, at.token, b.awaitAtWork(at.token, 1)[0].token)
		})
	}
}

// While its guard is paused, goversed ends the command itself.
func TestExecGuardPausedWithoutEtcd(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	b := newWorkBench(t, etcd)
	b.exec(shortTTL, nil, stubborn, forks)
	at := b.awaitAtWork(0, 2)
	require.NoError(t, syscall.Kill(at[0].parent, syscall.SIGSTOP))
	etcd.Kill(t)
	gone := monotonic()
	for _, s := range at {
		procs.Await(t, patience, "it is ended", func() error { return alive(s.pid) })
	}
	for _, s := range readWorkPeriods(t, b.dir) {
		require.Less(t, s.to-gone, shortTTL)
	}
	etcd.Restart(t)
	b.awaitAtWork(at[0].token, 2)
}

// Processes that the command leaves in its group are ended before the next command begins.
func TestExecLeftBehind(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	b := newWorkBench(t, etcd)
	first := b.exec(longTTL, []string{"--stop-timeout", "200ms"}, forks, leaves)
	b.awaitAtWork(0, 1)
	b.exec(longTTL, nil)
	require.Equal(t, 7, first.Exit(t, patience))
	b.awaitAtWork(readWorkPeriods(t, b.dir)[0].token, 1)
}

// As the first process of a container, goversed itself must reap orphans: otherwise a zombie would stay in the
// command's group forever.
func TestExecAsTheFirstProcess(t *testing.T) {
	t.Parallel()
	contained := []string{"--pid", "--fork", "--mount-proc"}
	if probe := kit.Start(t, "unshare", "unshare", append(contained, "true"), nil); probe.Exit(t, patience) != 0 {
		t.Skip("this user may make no PID namespace here: ", probe.Output())
	}
	etcd := kit.StartEtcd(t, procs.Etcd37)
	b := newWorkBench(t, etcd)
	args := append(contained, kit.GoversedPath(t), "exec", "--election", b.name, "--etcd", b.etcd, "--prefix",
		procs.Prefix, "--stop-timeout", "200ms", "--")
	p := kit.Start(t, "goversed exec", "unshare", append(args, b.command(forks, leaves)...), nil)
	require.Equal(t, 7, p.Exit(t, patience))

	// If the guard is killed, goversed reaps the processes.
	p = kit.Start(t, "goversed exec", "unshare", append(args, "sh", "-c", "sleep 60 & sleep 60 & kill -KILL $PPID; wait"),
		nil)
	require.Equal(t, 137, p.Exit(t, patience))
}

// commandOf returns the work of a command among that of it and of its child, which may have begun first.
func commandOf(at []workPeriod) workPeriod {
	if at[0].parent == at[1].pid {
		return at[1]
	}
	return at[0]
}

// With a cgroup no process escapes, whichever process is killed.
func TestExecCgroup(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	probe := newWorkBench(t, etcd).lock([]string{"--cgroup"}, "true")
	if probe.Exit(t, patience) == 125 {
		require.Contains(t, probe.Output(), "no cgroup for the command")
		require.Contains(t, probe.Output(), "leave --cgroup out")
		t.Skip("this user may make no cgroup here: ", probe.Output())
	}
	for name, kill := range map[string]func(t *testing.T, a *procs.Process, w workPeriod){
		"goversed": func(t *testing.T, a *procs.Process, _ workPeriod) { a.Kill(t) },
		"guard": func(t *testing.T, _ *procs.Process, w workPeriod) {
			require.NoError(t, syscall.Kill(w.parent, syscall.SIGKILL))
		},
		"command": func(t *testing.T, _ *procs.Process, w workPeriod) {
			require.NoError(t, syscall.Kill(w.pid, syscall.SIGKILL))
		},
		"paused": func(t *testing.T, a *procs.Process, _ workPeriod) { a.Freeze(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newWorkBench(t, etcd)
			a := b.exec(shortTTL, []string{"--cgroup"}, stubborn, escapes)
			at := commandOf(b.awaitAtWork(0, 2))
			b.exec(shortTTL, nil)
			b.awaitQueued(etcd, 2)
			kill(t, a, at)
			next := b.awaitAtWork(at.token, 1)[0]
			for _, s := range readWorkPeriods(t, b.dir) {
				require.True(t, s.token != at.token || s.to < next.from, "%+v, %+v", s, next)
			}
		})
	}
}

// Without a cgroup, a process that leaves the group is not ended, as the help documents.
func TestExecEscapedWithoutCgroup(t *testing.T) {
	t.Parallel()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	b := &workBench{T: t, etcd: etcd.Endpoint, dir: t.TempDir(), name: t.Name()} // without the judge at the end
	first := b.exec(longTTL, nil, escapes)
	at := b.awaitAtWork(0, 2)
	escaped := at[1]
	if escaped.pid == at[0].parent { // it may have started first
		escaped = at[0]
	}
	t.Cleanup(func() { _ = syscall.Kill(escaped.pid, syscall.SIGKILL) })
	b.exec(longTTL, nil)
	b.awaitQueued(etcd, 2)
	first.Kill(t)
	b.awaitAtWork(at[0].token, 1)
	procs.Await(t, patience, "the judge sees the escaped one beside the next", func() error {
		if len(overlappingPeriods(readWorkPeriods(t, b.dir))) == 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	help := kit.Goversed(t, "exec", "--help")
	require.Zero(t, help.Exit(t, patience))
	require.Contains(t, strings.Join(strings.Fields(help.Output()), " "),
		"Descendants that left the group (setsid, daemons) are ended only with --cgroup")
}
