package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// told is a history with an overlap, an exempt one, and much around them.
func told() (History, Limits) {
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
	v := Check(told())
	var b strings.Builder
	n, err := v.WriteTo(&b)
	require.NoError(t, err)
	require.Len(t, b.String(), int(n))
	require.Equal(t, `FAILED: overlap: 1; exempt overlaps: 1, the longest 9ms
1 processes, 3 nodes, 8s; 14 samples, 3 terms, 2 marks; writes: 1 accepted, 1 refused, 0 unknown; 0 reads, 1 revisions watched
time 0 is 2026-01-02T03:04:05Z

overlap, +0.070000 to +0.100000, at least 30ms: two leaders: a (p-a) by token 7, and b (p-b) by token 9
       +0.000000  b (p-b): does not lead, candidate; sampled 2 times, last at +0.039000
       +0.000000  c (p-c): does not lead, candidate; sampled 2 times, last at +3.979000
       +0.001000  a (p-a): leads by token 7, leader; sampled 2 times, last at +0.100000
       +0.010000  a (p-a): write of "v0" by token 7, accepted at revision 40, returned +0.012000
       +0.013000  etcd: r at revision 40: "v0" by token 7
       +0.020000  a: mark: frozen, from +0.020000 on
       +0.050000  b (p-b): leads by token 9, leader; sampled 2 times, last at +4.000000, asked at some instant within 20ms from +0.050000
       +0.090000  a (p-a): write of "v1" by token 7, refused, returned +0.091000
       +0.102000  a (p-a): does not lead, candidate; sampled 2 times, last at +7.999000

exempt: overlap, +3.991000 to +4.000000, at least 9ms: two leaders: b (p-b) by token 9, and c (p-c) by token 12
    for b: key deleted, +3.985000 to +3.986000
`, b.String())
	require.Equal(t, "ok", Check(History{Runs: []Run{no("a", Candidate, 0, 1)}}, Limits{}).Summary())
}

// A history that is wrong all over is told in a length that can be read.
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

// failing is a test that may fail.
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
