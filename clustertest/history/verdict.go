package history

import "time"

// Kind is what is wrong.
type Kind string

// The kinds of findings.
const (
	Overlap         Kind = "overlap"          // two nodes led at one instant
	Token           Kind = "token"            // a token that did not grow
	Stale           Kind = "stale write"      // a write of a lost term was accepted
	NotLinearizable Kind = "not linearizable" // the register did not behave as one
	Silent          Kind = "silent stop"
	Undecided       Kind = "undecided" // the search for a linear order took too long
	Empty           Kind = "empty"     // nothing was recorded
)

// Finding is one thing that is surely wrong.
type Finding struct {
	Kind Kind
	// Text is one line about it.
	Text string
	// From and To are between which instants it surely was so. For an overlap with a
	// term that was seen once, it was so at some instant in between.
	From, To Instant
	// Terms are those concerned: of an overlap the older, by its token, first.
	Terms []Term
	// Runs are a silent node's samples.
	Runs []Run
	// Ops are the writes and reads concerned.
	Ops []Op
	// Mark is what excuses an exempt overlap; else nil.
	Mark *Mark

	instant bool
}

// Length is how long it surely was so; 0 for what is only known to have been so at
// some instant.
func (f Finding) Length() time.Duration {
	if f.instant {
		return 0
	}
	return f.To.Sub(f.From)
}

// Verdict is what a history proves.
type Verdict struct {
	// Findings break a promise.
	Findings []Finding
	// Exempt are overlaps that the design does not exclude, within their bounds.
	Exempt []Finding
	// Seen is what the verdict rests on.
	Seen Seen

	history History
}

// OK reports whether no promise was broken.
func (v Verdict) OK() bool { return len(v.Findings) == 0 }

// Of are the findings of one kind.
func (v Verdict) Of(k Kind) []Finding {
	var out []Finding
	for _, f := range v.Findings {
		if f.Kind == k {
			out = append(out, f)
		}
	}
	return out
}

// Seen counts what was recorded.
type Seen struct {
	Span                       time.Duration // from the first sample to the last
	Processes, Nodes           int           // nodes: each life of one counts
	Samples, Terms, Marks      int
	Accepted, Refused, Unknown int // writes
	Reads, Entries             int
}

func count(h History, lives [][]Run, terms []Term) Seen {
	s := Seen{Processes: len(h.Processes), Nodes: len(lives), Terms: len(terms), Marks: len(h.Marks), Entries: len(h.Entries)}
	first, last := forever, -forever
	for _, r := range h.Runs {
		s.Samples += r.Count
		first, last = min(first, r.First.Before), max(last, r.Last.After)
	}
	if s.Samples > 0 {
		s.Span = last.Sub(first)
	}
	for _, op := range h.Ops {
		switch {
		case !op.Write:
			s.Reads++
		case op.Outcome == OutcomeAccepted:
			s.Accepted++
		case op.Outcome == OutcomeRefused:
			s.Refused++
		default:
			s.Unknown++
		}
	}
	return s
}
