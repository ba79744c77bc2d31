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
		"no session":             {[]Run{no("a", NoSession, 0, 1200)}, nil, true},
		"not queued":             {[]Run{no("a", Follower, 0, 1200)}, nil, true},
		"one, then the other":    {[]Run{no("a", NoSession, 0, 600), no("a", Follower, 601, 1200)}, nil, true},
		"after it was queued":    {[]Run{no("a", Candidate, 0, 500), no("a", Follower, 501, 1700)}, nil, true},
		"comes back in time":     {[]Run{no("a", NoSession, 0, 900), no("a", Candidate, 901, 1800)}, nil, false},
		"queued":                 {[]Run{no("a", Candidate, 0, 5000)}, nil, false},
		"observes":               {[]Run{no("a", Observer, 0, 5000)}, nil, false},
		"says why":               {[]Run{no("a", Failed, 0, 5000)}, nil, false},
		"stopped by its program": {[]Run{no("a", Stopped, 0, 5000)}, nil, false},
		"not asked":              {[]Run{no("a", Unknown, 0, 5000)}, nil, false},
		"leads":                  {[]Run{yes("a", 1, window(0, 1), window(4999, 5000))}, nil, false},
		"a fault, never ended":   {[]Run{no("a", NoSession, 0, 5000)}, []Mark{mark("a", "cut off", 0, 0)}, false},
		"a fault, ended":         {[]Run{no("a", NoSession, 0, 5000)}, []Mark{mark("a", "cut off", 0, 3900)}, true},
		"a fault, ended late":    {[]Run{no("a", NoSession, 0, 5000)}, []Mark{mark("a", "cut off", 0, 4100)}, false},
		"another's fault":        {[]Run{no("a", NoSession, 0, 5000)}, []Mark{mark("b", "cut off", 0, 0)}, true},
		"everybody's fault":      {[]Run{no("a", NoSession, 0, 5000)}, []Mark{mark("", "etcd down", 0, 0)}, false},
		"one fault after the other": {[]Run{no("a", NoSession, 0, 2000)}, []Mark{mark("a", "y", 900, 1100),
			mark("a", "x", 0, 400)}, false},
		"faults within a fault": {[]Run{no("a", NoSession, 0, 2000)}, []Mark{mark("a", "x", 0, 1900),
			mark("a", "y", 10, 20)}, false},
		"before the fault": {[]Run{no("a", NoSession, 0, 2000)}, []Mark{mark("a", "y", 1100, 0)}, true},
		"nobody looked":    {[]Run{no("a", NoSession, 0, 900), no("a", NoSession, 1100, 1900)}, nil, false},
	} {
		v := Check(History{Runs: test.runs, Marks: test.marks}, Limits{Silent: time.Second})
		if test.silent {
			require.Equal(t, []Kind{Silent}, kinds(v.Findings), name)
			require.GreaterOrEqual(t, v.Findings[0].Length(), time.Second, name)
		} else {
			require.Empty(t, v.Findings, name)
		}
	}
	require.NotEmpty(t, Check(History{Runs: []Run{no("a", NoSession, 0, 40000)}}, Limits{}).Findings, "30 s by default")
	require.Empty(t, Check(History{Runs: []Run{no("a", NoSession, 0, 29000)}}, Limits{}).Findings, "30 s by default")
}
