//go:build unix

package procs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// leads is an answer, sent and got at these milliseconds, in which process pid leads.
func leads(pid int, token int64, sent, got int) Sample {
	epoch := time.Unix(0, 0)
	return Sample{Node: "n", Pid: pid, Sent: epoch.Add(time.Duration(sent) * time.Millisecond),
		Got: epoch.Add(time.Duration(got) * time.Millisecond), Status: Status{IsLeader: true, Token: token}}
}

func TestFaultsAreFoundOnlyWhereProven(t *testing.T) {
	for name, test := range map[string]struct {
		samples []Sample
		faults  int
	}{
		"one after the other":      {[]Sample{leads(1, 1, 0, 1), leads(1, 1, 9, 10), leads(2, 2, 11, 12)}, 0},
		"within":                   {[]Sample{leads(1, 1, 0, 1), leads(1, 1, 9, 10), leads(2, 2, 5, 6)}, 1},
		"may have been before":     {[]Sample{leads(1, 2, 0, 1), leads(1, 2, 9, 10), leads(2, 1, 0, 6)}, 0},
		"two stretches":            {[]Sample{leads(1, 1, 0, 1), leads(1, 1, 9, 10), leads(2, 2, 0, 6), leads(2, 2, 12, 13)}, 2},
		"frozen":                   {[]Sample{leads(1, 1, 0, 1), leads(1, 1, 2, 100), leads(2, 2, 50, 51)}, 0},
		"between two terms of one": {[]Sample{leads(1, 1, 0, 1), leads(2, 2, 5, 6), leads(1, 3, 9, 10)}, 0},
		"token falls":              {[]Sample{leads(1, 5, 0, 1), leads(2, 4, 5, 6)}, 1},
		"token falls at home":      {[]Sample{leads(1, 5, 0, 1), leads(1, 4, 5, 6)}, 1},
		"same token":               {[]Sample{leads(1, 5, 0, 1), leads(2, 5, 5, 6)}, 1},
	} {
		require.Len(t, faults(test.samples), test.faults, name)
	}
}
