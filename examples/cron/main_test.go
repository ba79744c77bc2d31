//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/embedetcd"
)

// TestMain: with the variable, this is the program.
func TestMain(m *testing.M) {
	if os.Getenv("CRON_TEST_PROGRAM") != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestCommandLine(t *testing.T) {
	for line, want := range map[string]string{
		"-schedule|* * * * *":                      "name a command",
		"-schedule|@every 1m|--|true":              "as in crontab(5)",
		"-schedule|61 * * * *|true":                "as in crontab(5)",
		"true":                                     "as in crontab(5)",
		"-schedule|*/5 * * * *|--|echo|-n|hallo":   "",
		"-schedule|* * * * * *|-name|x|echo|hallo": "",
	} {
		_, err := parse(strings.Split(line, "|"), io.Discard)
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
		}
	}
}

// served is one line that the command wrote.
type served struct {
	due    time.Time
	token  int64
	parent int // process id of the copy that ran it
}

// Three copies serve every second; whoever serves is killed, three times. No time is served
// twice, and those that are missing were named by the next leader.
func TestEachTimeOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	etcd, err := embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	defer etcd.Close()
	self, err := os.Executable()
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "served")

	copies := map[int]*fault.Process{}
	start := func() {
		cmd := exec.Command(self, "-etcd", etcd.Endpoint(), "-schedule", "* * * * * *", "-catch-up", "10s", "--",
			"sh", "-c", `echo "$CRON_DUE $CRON_TOKEN $PPID" >> "$0"`, out)
		cmd.Env = append(os.Environ(), "CRON_TEST_PROGRAM=1")
		p, err := fault.StartProcess(cmd)
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, p.Close())
			if t.Failed() {
				t.Logf("process %d said:\n%s", p.Pid(), p.Output())
			}
		})
		copies[p.Pid()] = p
	}
	read := func() (all []served) {
		data, err := os.ReadFile(out)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		require.NoError(t, err)
		for line := range strings.Lines(string(data)) {
			var s served
			var due string
			_, err := fmt.Sscan(line, &due, &s.token, &s.parent)
			require.NoError(t, err, line)
			s.due, err = time.Parse(time.RFC3339, due)
			require.NoError(t, err)
			all = append(all, s)
		}
		return all
	}
	more := func(n int) served {
		before := len(read())
		require.Eventually(t, func() bool { return len(read()) >= before+n }, 20*time.Second, 5*time.Millisecond)
		all := read()
		return all[len(all)-1]
	}
	for range 3 {
		start()
	}
	for range 3 {
		leader := copies[more(1).parent]
		require.NotNil(t, leader, "the command's parent is a copy")
		_, err := leader.Kill()
		require.NoError(t, err)
		start()
		more(2)
	}
	said := ""
	for _, p := range copies {
		said += p.Output()
	}
	all, seen := read(), map[time.Time]bool{}
	for _, s := range all {
		require.False(t, seen[s.due], "%v was served twice", s.due)
		seen[s.due] = true
	}
	for due := all[0].due; due.Before(all[len(all)-1].due); due = due.Add(time.Second) {
		if !seen[due] {
			require.Contains(t, said, "cron/job/"+due.Format(time.RFC3339), "%v was missed, and nobody said so", due)
		}
	}
}
