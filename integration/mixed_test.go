//go:build unix

package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/chaos"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/needed"
)

// baseCommit is the commit of the release before this one. A release sets it to its own, for the next one.
const baseCommit = "cc770724b42515961f0d65f29f5c7377dfe822ae"

var (
	mixed     = flag.Bool("mixed", false, "run the release before and this one in one cluster")
	mixedBase = flag.String("mixed.base", baseCommit, "commit of the release before")
)

// TestMixedReleases runs nodes of the release before and of this one in one cluster: a rolling upgrade and a rolling
// roll-back, node by node, compared with a rolling restart of the release before.
func TestMixedReleases(t *testing.T) {
	if !*mixed {
		t.Skip("takes a minute: give -mixed")
	}
	base := buildBase(t, *mixedBase)
	self, err := os.Executable()
	require.NoError(t, err)
	t.Run("Nodes", func(t *testing.T) { mixNodes(t, base, self) })
	t.Run("Processors", func(t *testing.T) { mixProcessors(t, base, self) })
}

// buildBase builds this package's test program, which is that of the nodes, at a commit.
func buildBase(t *testing.T, commit string) string {
	t.Helper()
	if err := exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		needed.Missing(t, "git-history", fmt.Sprintf("git, or commit %s, is missing (%v): run this in a clone with its "+
			"history, or give -mixed.base", commit, err))
	}
	began, source := time.Now(), filepath.Join(t.TempDir(), "source")
	require.NoError(t, os.Mkdir(source, 0o755))
	archive := source + ".tar"
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	require.NoError(t, err)
	run := func(dir, name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %v: %s", name, args, out)
	}
	run(strings.TrimSpace(string(root)), "git", "archive", "-o", archive, commit)
	run(source, "tar", "-xf", archive)
	// With -trimpath, Go's build cache does not depend on the directory, so only the first build takes long.
	program := filepath.Join(source, "base.test")
	run(source, "go", "test", "-c", "-trimpath", "-ldflags=-w", "-o", program, "./integration")
	t.Logf("built %.12s in %v", commit, time.Since(began).Round(100*time.Millisecond))
	return program
}

// mixNodes rolls nodes that have leaders, shards, locks, effects and objects. Of 500 calls a second none may fail that
// does not fail in a rolling restart of one release.
func mixNodes(t *testing.T, base, self string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cfg := chaosConfig(t)
	cfg.Nodes, cfg.EtcdMembers = 3, 1
	res, err := chaos.RunRolling(ctx, cfg, *chaosSeed, []chaos.Phase{
		{Name: "restart of the release before", Program: base}, {Name: "upgrade", Program: self},
		{Name: "roll-back", Program: base}})
	require.NoError(t, err)
	for _, p := range res.Phases {
		t.Log(p)
	}
	var all seen
	all.add(res.Verdict)
	t.Logf("%d findings; %v", len(res.Verdict.Findings), &all)
	if res.Err != nil || len(res.Verdict.Findings) > 0 {
		t.Logf("the transcript is in %s", keep(t, &chaos.Result{Seed: *chaosSeed, Verdict: res.Verdict, Err: res.Err,
			Output: res.Output}))
	}
	require.NoError(t, res.Err)
	require.Empty(t, res.Verdict.Findings)
	plain, upgrade := res.Phases[0], res.Phases[1]
	for _, p := range res.Phases[1:] {
		require.LessOrEqual(t, p.Failed, plain.Failed, p.Name)
		require.LessOrEqual(t, p.FailedByKill, plain.FailedByKill+chaos.SteadyCallers, p.Name)
	}
	require.Equal(t, cfg.Nodes, upgrade.StateFormats, "each node of this release states its formats")
}

// mixProcessors rolls workers of a processor with its checkpoint in etcd. No event may be missed, and each mail is sent
// once.
func mixProcessors(t *testing.T, base, self string) {
	const count = 3
	f := newWorkerWorld(t)
	f.cfg.InEtcd = true
	var workers []*procs.Process
	for range count {
		workers = append(workers, startWorkerProgram(t, base, f.cfg))
	}
	f.awaitQueue(count)
	programs := [count]string{base, base, base}
	stop := f.startEvents()
	tries, changes := int64(0), 0
	restart := func(i int, program string) {
		workers[i], programs[i] = startWorkerProgram(t, program, f.cfg), program
		changes++
		f.awaitQueue(count)
		for _, w := range workers { // effects of processes that have started anew have taken place already
			w.AwaitOutput(t, workPatience, "part of the cluster")
			w.Signal(t, effectSignal)
		}
		tries += count
		f.await("all have tried", "select count(*) >= $1 from tries", tries)
		pids := make([]int64, count) // the last effect may be one of the process that was killed
		for at, w := range workers {
			pids[at] = int64(w.Pid())
		}
		f.await("a worker handles an event", "select exists (select from effects where pid = any($1) and seq > $2)", pids,
			f.number("select coalesce(max(seq), 0) from effects"))
	}
	for _, program := range []string{self, base} {
		for i, w := range workers {
			if i == count-1 {
				w.Kill(t)
				restart(i, programs[i])
				w = workers[i]
			}
			w.Signal(t, syscall.SIGTERM)
			require.Zero(t, w.Exit(t, workPatience))
			restart(i, program)
		}
	}
	stop()
	f.awaitAll()
	require.Zero(t, f.number("select count(*) from events where seq not in (select seq from effects)"), "none is missed")
	again := f.number("select count(*) - count(distinct seq) from effects")
	require.LessOrEqual(t, again, int64(changes*20), "of a leader's last batch at most")
	mails := f.number("select count(*) from mails")
	require.Equal(t, f.number("select count(distinct name) from mails"), mails, "each is sent once")
	t.Logf("%d changes of a worker, %d events, %d handled again; %d mails, tried %d times", changes, f.last, again, mails,
		tries)
}
