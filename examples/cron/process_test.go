//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// record is the start of every script; "$0" is the file that it writes.
const record = `echo "$CRON_DUE $CRON_TOKEN $PPID $$" >> "$0"; `

// served is a line that a command wrote.
type served struct {
	due           time.Time
	token         int64
	parent, child int // process ids of the copy that ran it and of the command
}

// copies are cron processes with one etcd.
type copies struct {
	t    *testing.T
	etcd *etcdtest.Server
	out  string
	all  map[int]*fault.Process
}

func newCopies(t *testing.T) *copies {
	return &copies{t: t, etcd: etcdtest.Start(t), out: filepath.Join(t.TempDir(), "served"), all: map[int]*fault.Process{}}
}

// start starts a copy that runs a shell script every second.
func (c *copies) start(etcd, catchUp, script string) *fault.Process {
	self, err := os.Executable()
	require.NoError(c.t, err)
	cmd := exec.Command(self, "-etcd", etcd, "-schedule", "* * * * * *", "-catch-up", catchUp, "--", "sh", "-c", script,
		c.out)
	cmd.Env = append(os.Environ(), "CRON_TEST_PROGRAM=1")
	p, err := fault.StartProcess(cmd)
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		require.NoError(c.t, p.Close())
		if c.t.Failed() {
			c.t.Logf("process %d said:\n%s", p.Pid(), p.Output())
		}
	})
	c.all[p.Pid()] = p
	return p
}

func (c *copies) served() (all []served) {
	data, err := os.ReadFile(c.out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(c.t, err)
	for line := range strings.Lines(string(data)) {
		var s served
		var due string
		_, err := fmt.Sscan(line, &due, &s.token, &s.parent, &s.child)
		require.NoError(c.t, err, line)
		s.due, err = time.Parse(time.RFC3339, due)
		require.NoError(c.t, err)
		all = append(all, s)
	}
	return all
}

// more waits until n more times were served, and returns the last one.
func (c *copies) more(n int) served { return c.number(len(c.served()) + n) }

// number waits until n times were served in all, and returns the last one.
func (c *copies) number(n int) served {
	c.t.Helper()
	c.eventually(func() bool { return len(c.served()) >= n })
	all := c.served()
	return all[len(all)-1]
}

func (c *copies) eventually(cond func() bool) {
	c.t.Helper()
	require.Eventually(c.t, cond, time.Minute, 5*time.Millisecond)
}

// says waits until the process has logged a line with all these words, and returns the line.
func (c *copies) says(p *fault.Process, words ...string) (said string) {
	c.t.Helper()
	c.eventually(func() bool {
		for line := range strings.Lines(p.Output()) {
			has := true
			for _, w := range words {
				has = has && strings.Contains(line, w)
			}
			if has {
				said = line
				return true
			}
		}
		return false
	})
	return said
}

func (c *copies) requireNoneTwice() map[time.Time]bool {
	seen := map[time.Time]bool{}
	for _, s := range c.served() {
		require.False(c.t, seen[s.due], "%v was served twice", s.due)
		seen[s.due] = true
	}
	return seen
}

// requireNoneLost requires that every time without a run was reported by a leader as unknown.
func (c *copies) requireNoneLost() {
	unknown := ""
	for _, p := range c.all {
		for line := range strings.Lines(p.Output()) {
			if strings.Contains(line, "it is not known") {
				unknown += line
			}
		}
	}
	all, seen := c.served(), c.requireNoneTwice()
	for due := all[0].due; due.Before(all[len(all)-1].due); due = due.Add(time.Second) {
		if !seen[due] {
			require.Contains(c.t, unknown, effect(due), "%v was missed, and nobody said so", due)
		}
	}
}

func effect(due time.Time) string { return "cron/job/" + due.Format(time.RFC3339) }

// Three copies serve every second, and the leading copy is killed three times. No time is served twice, and the
// next leader reports each missing one.
func TestEachTimeOnce(t *testing.T) {
	t.Parallel()
	c := newCopies(t)
	start := func() { c.start(c.etcd.Endpoint(), "10s", record) }
	for range 3 {
		start()
	}
	for range 3 {
		leader := c.all[c.more(1).parent]
		require.NotNil(t, leader, "the command's parent is a copy")
		for !leader.Running() { // it was killed during a run
			leader = c.all[c.more(1).parent]
		}
		_, err := leader.Kill()
		require.NoError(t, err)
		start()
	}
	c.more(2)
	c.requireNoneLost()
}

// If a leader is killed, the next one reports a run that lasted longer than -catch-up. On Linux the command is
// killed with its copy.
func TestALongRunIsReported(t *testing.T) {
	t.Parallel()
	c := newCopies(t)
	script := record + "exec sleep 60"
	c.start(c.etcd.Endpoint(), "1s", script)
	cut := c.more(1)
	heir := c.start(c.etcd.Endpoint(), "1s", script)
	c.eventually(func() bool { return time.Since(cut.due) > 1500*time.Millisecond })
	_, err := c.all[cut.parent].Kill()
	require.NoError(t, err)
	c.says(heir, "it is not known", "never run again", effect(cut.due))
	require.NotEqual(t, cut.due, c.number(2).due)
	c.eventually(func() bool { return errors.Is(syscall.Kill(cut.child, 0), syscall.ESRCH) || runtime.GOOS != "linux" })
	c.requireNoneTwice()
}

// A command that fails by itself is distinguished from one that is ended with its copy. Neither runs again.
func TestFailedAndEnded(t *testing.T) {
	t.Parallel()
	c := newCopies(t)
	script := record + `[ $(wc -l < "$0") != 1 ] || exit 3; [ $(wc -l < "$0") != 2 ] || exec sleep 60`
	first := c.start(c.etcd.Endpoint(), "10s", script)
	c.number(1)
	failed := c.served()[0]
	c.says(first, "the command failed", "not run again", "next=", effect(failed.due), "exit status 3")
	ended := c.number(2)
	_, err := first.Signal(syscall.SIGTERM)
	require.NoError(t, err)
	c.says(first, "the command was ended", "not run again", effect(ended.due))
	<-first.Done()
	c.start(c.etcd.Endpoint(), "10s", script)
	c.more(1)
	c.requireNoneTwice()
}

// If etcd does not answer for longer than a request waits, the runs that could not begin are served afterwards.
func TestWhatHasNotBegunIsTriedAgain(t *testing.T) {
	t.Parallel()
	c := newCopies(t)
	relay, err := fault.NewRelay(c.etcd.Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { _ = relay.Close() })
	p := c.start(relay.Address(), "1m", record)
	for begun := true; begun; {
		c.says(p, "served", effect(c.more(1).due))
		relay.Blackhole(fault.FromTarget)
		c.eventually(func() bool {
			// On a busy machine the next run may have begun before that; then it is cut off.
			begun = !strings.Contains(p.Output(), "the command has not begun; it is tried again")
			return !begun || strings.Contains(p.Output(), "it is not known")
		})
		require.NoError(t, relay.Heal())
	}
	c.more(4)
	c.requireNoneLost()
}

// A job without a former leader serves no past times. A job with a leader long ago leaves out the late times
// and reports that.
func TestThePast(t *testing.T) {
	t.Parallel()
	c := newCopies(t)
	before := time.Now()
	p := c.start(c.etcd.Endpoint(), "1h", record)
	require.True(t, c.more(1).due.After(before.Add(-time.Second)))
	_, err := p.Kill()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	long := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	_, err = c.etcd.Client().Put(ctx, begunKey("/cron", "job"), long.Format(time.RFC3339Nano))
	require.NoError(t, err)
	p = c.start(c.etcd.Endpoint(), "5s", record)
	c.says(p, "was not run", effect(long))
	c.says(p, "left out", "before=")
	c.more(1)
	c.requireNoneTwice()
	for _, s := range c.served() {
		require.True(t, s.due.After(before.Add(-10*time.Second)), s.due)
	}
}
