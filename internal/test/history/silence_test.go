package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSilentStops(t *testing.T) {
	for name, test := range map[string]struct {
		runs   []Run
		marks  []Mark
		silent bool
	}{
		"no session":             {[]Run{idleRun("a", NoSession, 0, 1200)}, nil, true},
		"not queued":             {[]Run{idleRun("a", Follower, 0, 1200)}, nil, true},
		"one, then the other":    {[]Run{idleRun("a", NoSession, 0, 600), idleRun("a", Follower, 601, 1200)}, nil, true},
		"after it was queued":    {[]Run{idleRun("a", Candidate, 0, 500), idleRun("a", Follower, 501, 1700)}, nil, true},
		"comes back in time":     {[]Run{idleRun("a", NoSession, 0, 900), idleRun("a", Candidate, 901, 1800)}, nil, false},
		"queued":                 {[]Run{idleRun("a", Candidate, 0, 5000)}, nil, false},
		"observes":               {[]Run{idleRun("a", Observer, 0, 5000)}, nil, false},
		"says why":               {[]Run{idleRun("a", Failed, 0, 5000)}, nil, false},
		"stopped by its program": {[]Run{idleRun("a", Stopped, 0, 5000)}, nil, false},
		"not asked":              {[]Run{idleRun("a", Unknown, 0, 5000)}, nil, false},
		"leads":                  {[]Run{leadingRun("a", 1, newWindow(0, 1), newWindow(4999, 5000))}, nil, false},
		"a fault, never ended":   {[]Run{idleRun("a", NoSession, 0, 5000)}, []Mark{newMark("a", "cut off", 0, 0)}, false},
		"a fault, ended":         {[]Run{idleRun("a", NoSession, 0, 5000)}, []Mark{newMark("a", "cut off", 0, 3900)}, true},
		"a fault, ended late":    {[]Run{idleRun("a", NoSession, 0, 5000)}, []Mark{newMark("a", "cut off", 0, 4100)}, false},
		"another's fault":        {[]Run{idleRun("a", NoSession, 0, 5000)}, []Mark{newMark("b", "cut off", 0, 0)}, true},
		"everybody's fault":      {[]Run{idleRun("a", NoSession, 0, 5000)}, []Mark{newMark("", "etcd down", 0, 0)}, false},
		"one fault after the other": {[]Run{idleRun("a", NoSession, 0, 2000)}, []Mark{newMark("a", "y", 900, 1100),
			newMark("a", "x", 0, 400)}, false},
		"faults within a fault": {[]Run{idleRun("a", NoSession, 0, 2000)}, []Mark{newMark("a", "x", 0, 1900),
			newMark("a", "y", 10, 20)}, false},
		"before the fault": {[]Run{idleRun("a", NoSession, 0, 2000)}, []Mark{newMark("a", "y", 1100, 0)}, true},
		"nobody looked":    {[]Run{idleRun("a", NoSession, 0, 900), idleRun("a", NoSession, 1100, 1900)}, nil, false},
	} {
		v := Check(History{Runs: test.runs, Marks: test.marks}, Limits{Silent: time.Second})
		if test.silent {
			require.Equal(t, []Kind{Silent}, kinds(v.Findings), name)
			require.GreaterOrEqual(t, v.Findings[0].Length(), time.Second, name)
		} else {
			require.Empty(t, v.Findings, name)
		}
	}
	require.NotEmpty(t, Check(History{Runs: []Run{idleRun("a", NoSession, 0, 40000)}}, Limits{}).Findings,
		"30 s by default")
	require.Empty(t, Check(History{Runs: []Run{idleRun("a", NoSession, 0, 29000)}}, Limits{}).Findings, "30 s by default")
}
