package history

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	fullFindings = 10  // reported with their surroundings
	maxListed    = 100 // reported in one line
)

// String returns the full report as text.
func (v Verdict) String() string {
	var b strings.Builder
	v.writeReport(&b)
	return b.String()
}

// WriteTo writes the report: the verdict in one line, the counts it rests on, and for each finding the
// surrounding claims, marks and writes in time order. Times are in seconds since the start of the recording.
func (v Verdict) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, v.String())
	return int64(n), err
}

func (v Verdict) writeReport(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n%v\n", v.Summary(), v.Seen)
	start := v.history.firstInstant()
	for _, p := range v.history.Processes {
		if p.At == start {
			fmt.Fprintf(b, "time 0 is %s\n", p.Wall.UTC().Format(time.RFC3339Nano))
			break
		}
	}
	for i, f := range v.Findings {
		if i == maxListed {
			fmt.Fprintf(b, "\nand %d findings more\n", len(v.Findings)-i)
			break
		}
		fmt.Fprintf(b, "\n%s\n", f.describe(start))
		if i < fullFindings {
			for _, text := range v.history.recordsAround(f) {
				fmt.Fprintf(b, "    %s\n", text)
			}
		}
	}
	for i, f := range v.Exempt {
		if i == maxListed {
			fmt.Fprintf(b, "\nand %d exempt overlaps more\n", len(v.Exempt)-i)
			break
		}
		fmt.Fprintf(b, "\nexempt: %s\n    for %s: %s\n", f.describe(start), f.Mark.Node, f.Mark.describe(start))
	}
}

// Summary returns the verdict in one line.
func (v Verdict) Summary() string {
	var parts []string
	for _, k := range []Kind{Overlap, Token, Stale, NotLinearizable, Doubled, Lost, Unreported, Silent, Unserved,
		Undecided,
		Empty} {
		if n := len(v.FindingsOf(k)); n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", k, n))
		}
	}
	s := "ok"
	if !v.OK() {
		s = "FAILED: " + strings.Join(parts, ", ")
	}
	if len(v.Exempt) > 0 {
		s += fmt.Sprintf("; exempt overlaps: %d, the longest %v", len(v.Exempt), v.LongestExempt())
	}
	return s
}

// LongestExempt returns the length of the longest exempt overlap, 0 without any.
func (v Verdict) LongestExempt() time.Duration {
	var longest time.Duration
	for _, f := range v.Exempt {
		longest = max(longest, f.Length())
	}
	return longest
}

func (s Seen) String() string {
	text := fmt.Sprintf("%d processes, %d nodes, %v; %d samples, %d terms, %d marks; writes: %d accepted, %d refused, "+
		"%d unknown; %d reads, %d revisions watched",
		s.Processes, s.Nodes, s.Span.Round(time.Millisecond), s.Samples, s.Terms, s.Marks, s.Accepted, s.Refused, s.Unknown,
		s.Reads, s.Entries)
	if s.Shards > 0 {
		text += fmt.Sprintf("; %d shards, %d ownerships, %v", s.Shards, s.Ownerships, s.Pauses)
	}
	if s.Locks > 0 {
		text += fmt.Sprintf("; %d locks taken %d times, %d shared; increments: %d accepted, %d refused, %d unknown",
			s.Locks, s.Grants, s.Shared, s.Increments, s.Fenced, s.Unanswered)
	}
	if s.Attempts > 0 {
		text += fmt.Sprintf("; %d effects tried %d times, run %d times, %d of them unknown for a while, %d too late",
			s.Effects, s.Attempts, s.Ran, s.Unclear, s.Late)
	}
	if s.Calls > 0 {
		text += fmt.Sprintf("; %d activations of objects, %d calls, %d answered", s.Activations, s.Calls, s.Answered)
	}
	return text
}

func (p Pauses) String() string {
	if p.Count == 0 {
		return "no pause between two"
	}
	return fmt.Sprintf("%d pauses between two, median %v, longest %v",
		p.Count, p.Median.Round(time.Microsecond), p.Longest.Round(time.Millisecond))
}

func (f Finding) describe(start Instant) string {
	long := fmt.Sprintf("at least %v", f.Length())
	if f.instant {
		long = "at some instant"
	}
	return fmt.Sprintf("%s, %s to %s, %s: %s", f.Kind, f.From.since(start), f.To.since(start), long, f.Text)
}
