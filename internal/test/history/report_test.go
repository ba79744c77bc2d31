package history

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample is a history with an overlap, an exempt one, and much around them.
func sample() (History, Limits) {
	b := &book{}
	b.write("a", 7, 40, 1010, 1012)
	b.write("a", 7, 0, 1090, 1091).Outcome = OutcomeRefused
	h := History{
		Processes: []Process{{Name: "p-a", PID: 1, At: ms(1000), Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
		Runs: []Run{
			yes("a", 7, window(1001, 1002), window(1100, 1101)), no("a", Candidate, 1102, 9000),
			no("b", Candidate, 1000, 1040), yes("b", 9, window(1050, 1070), window(5000, 5001)), no("b", Candidate, 5002, 9000),
			no("c", Candidate, 1000, 4980), yes("c", 12, window(4990, 4991), window(8000, 8001)),
		},
		Marks:   []Mark{mark("a", "frozen", 1020, 0), mark("b", KeyDeleted, 4985, 4986)},
		Ops:     b.ops,
		Entries: []Entry{entry(b.ops[0], 40, 1013)},
	}
	return h, Limits{Exempt: map[string]time.Duration{KeyDeleted: time.Second}}
}

func TestReportIsATranscript(t *testing.T) {
	v := Check(sample())
	var b strings.Builder
	n, err := v.WriteTo(&b)
	require.NoError(t, err)
	require.Len(t, b.String(), int(n))
	want, err := os.ReadFile("testdata/report.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
	require.Equal(t, "ok", Check(History{Runs: []Run{no("a", Candidate, 0, 1)}}, Limits{}).Summary())
}

// TestReportIsBounded checks that the report on a history full of errors has a readable length.
func TestReportIsBounded(t *testing.T) {
	h := History{}
	for i := range 5000 {
		h.Runs = append(h.Runs, seenOnce("a", int64(6000-i), window(2*i, 2*i+1)))
	}
	v := Check(h, Limits{})
	require.Len(t, v.Findings, 4999)
	text := v.String()
	require.Contains(t, text, "lines more …")
	require.Contains(t, text, "and 4899 findings more")
	require.Less(t, strings.Count(text, "\n"), 2000)
}

// failing is a testing.TB that may fail.
type failing struct {
	testing.TB
	cleanup  func()
	failures []string
}

func (f *failing) Helper()             {}
func (f *failing) Cleanup(g func())    { f.cleanup = g }
func (f *failing) Logf(string, ...any) {}
func (f *failing) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func TestRecordFailsTheTest(t *testing.T) {
	for yes, failures := range map[bool]int{false: 0, true: 1} {
		f := &failing{TB: t}
		rec := Record(f, Limits{})
		rec.Add(Node{Name: "a", Leads: func() (bool, int64) { return yes, 0 }})
		f.cleanup()
		require.Len(t, f.failures, failures)
		if failures > 0 {
			require.Contains(t, f.failures[0], "claims no term")
		}
	}
}
