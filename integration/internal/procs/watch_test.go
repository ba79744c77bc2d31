//go:build unix

package procs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/history"
)

var epoch = time.Unix(0, 0)

// says returns an answer of process pid, sent and received at these milliseconds.
func says(pid int, leads bool, token int64, sent, got int) Sample {
	return Sample{Node: "n", Pid: pid, Sent: epoch.Add(time.Duration(sent) * time.Millisecond),
		Got: epoch.Add(time.Duration(got) * time.Millisecond), Status: Status{IsLeader: leads, Token: token}}
}

// confirming returns an answer of a paused leader while its session is being confirmed.
func confirming(pid, sent, got int) Sample { return says(pid, false, 0, sent, got) }

// follows returns an answer of process pid while n:9 leads.
func follows(pid, sent, got int) Sample {
	s := says(pid, false, 9, sent, got)
	s.Status.Ready, s.Status.LeaderID = true, "n:9"
	return s
}

func TestFaultsAreFoundOnlyWhereProven(t *testing.T) {
	a := []Sample{says(1, true, 1, 0, 1), says(1, true, 1, 9, 10)}
	for name, test := range map[string]struct {
		samples []Sample
		faults  int
	}{
		"one after the other":       {append(a, says(2, true, 2, 11, 12)), 0},
		"within":                    {append(a, says(2, true, 2, 5, 6)), 1},
		"another's token":           {append(a, follows(2, 5, 6)), 0},
		"may have been before":      {append(a, says(2, true, 2, -3, 6)), 0},
		"a term that came back":     {append(a, follows(1, 4, 5), says(2, true, 2, 6, 7)), 1},
		"a leader that lost":        {append(a[:1:1], follows(1, 4, 5), a[1]), 1},
		"one that was confirmed":    {append(a[:1:1], confirming(1, 4, 5), a[1]), 0},
		"another process, by token": {append(a, says(2, true, 1, 11, 12)), 1},
	} {
		require.Len(t, history.Check(historyOf(test.samples, epoch), history.Limits{}).Findings, test.faults, name)
	}
}
