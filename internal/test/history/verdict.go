package history

import "time"

// Kind is what is wrong.
type Kind string

// The kinds of findings.
const (
	// two nodes led, served one shard, held one lock unshared, or had one object active, at one instant
	Overlap         Kind = "overlap"
	Token           Kind = "token"            // a token or an epoch that did not grow
	Stale           Kind = "stale write"      // a write of a lost term was accepted
	NotLinearizable Kind = "not linearizable" // a register, a counter, a lock or an object did not behave as one
	Doubled         Kind = "effect doubled"   // it took place twice
	// some caller was answered that it took place, and it did not, or with another result
	Lost       Kind = "effect lost"
	Unreported Kind = "effect unreported" // it took place, and its caller was answered that it did not
	Silent     Kind = "silent stop"
	Unserved   Kind = "unserved"  // nobody served a shard, though nothing was done to anybody
	Undecided  Kind = "undecided" // the search for a linear order took too long
	Empty      Kind = "empty"     // nothing was recorded
)

// Finding is one thing that is surely wrong.
type Finding struct {
	Kind Kind
	// Subject is what was claimed, or whose claimant writes the register; of a silent stop
	// it is leadership.
	Subject Subject
	// Text is one line about it.
	Text string
	// From and To are between which instants it surely was so. For an overlap with a
	// term that was seen once, it was so at some instant in between.
	From, To Instant
	// Terms are those concerned: of an overlap the older, by its token, first; of a shard
	// that nobody served, the owners before.
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
	pauses  map[Subject][]time.Duration
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
	Samples, Terms, Marks      int           // samples: of all subjects at once; terms: of leadership
	Accepted, Refused, Unknown int           // writes
	Reads, Entries             int

	Shards     int    // that were sampled
	Ownerships int    // terms of shards
	Pauses     Pauses // between the ownerships of a shard

	Locks, Grants, Shared          int // names; how often they were taken, and of these, to be shared
	Increments, Fenced, Unanswered int // of counters: accepted, refused, and of unknown outcome
	Effects, Attempts, Ran         int // names; calls of Once, and of these, those that ran the function
	Unclear                        int // effects whose callers were answered that it is unknown
	Late                           int // effects that did not count, for the attempt had been given up

	Activations, Calls, Answered int // of objects: how often they were activated; their calls, and those answered
}

func count(h History, all []claims) Seen {
	lead := all[0]
	s := Seen{Processes: len(h.Processes), Nodes: len(lead.lives), Terms: len(lead.terms), Marks: len(h.Marks),
		Entries: len(h.Entries)}
	first, last := forever, -forever
	for _, runs := range lead.lives {
		for _, r := range runs {
			s.Samples += r.Count
			first, last = min(first, r.First.Before), max(last, r.Last.After)
		}
	}
	var lengths []time.Duration
	for _, c := range all[1:] {
		if c.subject.is(ofLock) {
			s.Locks++
			for _, t := range c.terms {
				s.Grants++
				if t.Shared {
					s.Shared++
				}
			}
			continue
		}
		if c.subject.is(ofObject) {
			s.Activations += len(c.terms)
			continue
		}
		s.Shards++
		s.Ownerships += len(c.terms)
		lengths = append(lengths, pauses(c.terms)...)
	}
	s.Pauses = summed(lengths)
	if s.Samples > 0 {
		s.Span = last.Sub(first)
	}
	for _, op := range h.Ops {
		switch {
		case !op.Write:
			s.Reads++
		case op.Counts && op.Outcome == OutcomeAccepted:
			s.Increments++
		case op.Counts && op.Outcome == OutcomeRefused:
			s.Fenced++
		case op.Counts:
			s.Unanswered++
		case op.Outcome == OutcomeAccepted:
			s.Accepted++
		case op.Outcome == OutcomeRefused:
			s.Refused++
		default:
			s.Unknown++
		}
	}
	s.effects(h)
	for _, c := range h.Calls {
		s.Calls++
		if c.Return != 0 {
			s.Answered++
		}
	}
	return s
}

func (s *Seen) effects(h History) {
	names, unclear := map[string]bool{}, map[string]bool{}
	for _, a := range h.Attempts {
		s.Attempts++
		names[a.Name] = true
		if a.Began != 0 {
			s.Ran++
		}
		if a.Answer == AnswerUnknown {
			unclear[a.Name] = true
		}
	}
	for _, e := range h.Effects {
		if !e.Closed {
			s.Late++
		}
	}
	for _, entered := range standing(h.Effects) {
		s.Late -= len(entered)
	}
	s.Effects, s.Unclear = len(names), len(unclear)
}
