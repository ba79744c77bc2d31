package history

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sampleHistory is a history with an overlap, an exempt one, and much around them.
func sampleHistory() (History, Limits) {
	b := &opLog{}
	b.addWrite("a", 7, 40, 1010, 1012)
	b.addWrite("a", 7, 0, 1090, 1091).Outcome = OutcomeRefused
	h := History{
		Processes: []Process{{Name: "p-a", PID: 1, At: ms(1000), Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
		Runs: []Run{
			leadingRun("a", 7, newWindow(1001, 1002), newWindow(1100, 1101)), idleRun("a", Candidate, 1102, 9000),
			idleRun("b", Candidate, 1000, 1040), leadingRun("b", 9, newWindow(1050, 1070), newWindow(5000, 5001)),
			idleRun("b", Candidate, 5002, 9000),
			idleRun("c", Candidate, 1000, 4980), leadingRun("c", 12, newWindow(4990, 4991), newWindow(8000, 8001)),
		},
		Marks:   []Mark{newMark("a", "frozen", 1020, 0), newMark("b", KeyDeleted, 4985, 4986)},
		Ops:     b.ops,
		Entries: []Entry{watchedEntry(b.ops[0], 40, 1013)},
	}
	return h, Limits{Exempt: map[string]time.Duration{KeyDeleted: time.Second}}
}

func TestReportIsATranscript(t *testing.T) {
	v := Check(sampleHistory())
	var b strings.Builder
	n, err := v.WriteTo(&b)
	require.NoError(t, err)
	require.Len(t, b.String(), int(n))
	want, err := os.ReadFile("testdata/report.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
	require.Equal(t, "ok", Check(History{Runs: []Run{idleRun("a", Candidate, 0, 1)}}, Limits{}).Summary())
}

// TestReportIsBounded checks that the report on a history full of errors has a readable length.
func TestReportIsBounded(t *testing.T) {
	h := History{}
	for i := range 5000 {
		h.Runs = append(h.Runs, seenOnce("a", int64(6000-i), newWindow(2*i, 2*i+1)))
	}
	v := Check(h, Limits{})
	require.Len(t, v.Findings, 4999)
	text := v.String()
	require.Contains(t, text, "lines more …")
	require.Contains(t, text, "and 4899 findings more")
	require.Less(t, strings.Count(text, "\n"), 2000)
}

// fakeTB is a testing.TB that may fail.
type fakeTB struct {
	testing.TB
	cleanup  func()
	failures []string
}

func (f *fakeTB) Helper()             {}
func (f *fakeTB) Cleanup(g func())    { f.cleanup = g }
func (f *fakeTB) Logf(string, ...any) {}
func (f *fakeTB) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func TestRecordFailsTheTest(t *testing.T) {
	for yes, failures := range map[bool]int{false: 0, true: 1} {
		f := &fakeTB{TB: t}
		rec := Record(f, Limits{})
		rec.Add(Node{Name: "a", Leads: func() (bool, int64) { return yes, 0 }})
		f.cleanup()
		require.Len(t, f.failures, failures)
		if failures > 0 {
			require.Contains(t, f.failures[0], "claims no term")
		}
	}
}
