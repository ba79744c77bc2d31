package history

import "time"

// Kind is a kind of finding.
type Kind string

// The kinds of findings.
const (
	// Overlap reports that two nodes led, served one shard, held one lock unshared, or had one object active,
	// at one instant.
	Overlap         Kind = "overlap"
	Token           Kind = "token"            // a token or an epoch did not grow
	Stale           Kind = "stale write"      // a write of a lost term was accepted
	NotLinearizable Kind = "not linearizable" // a register, counter, lock or object did not behave as one
	Doubled         Kind = "effect doubled"   // the effect took place twice
	// Lost reports that a caller was answered that an effect took place, but it did not, or had another result.
	Lost       Kind = "effect lost"
	Unreported Kind = "effect unreported" // it took place, but its caller was answered that it did not
	Silent     Kind = "silent stop"
	Unserved   Kind = "unserved"  // no node served a shard although no fault was in progress
	Undecided  Kind = "undecided" // the search for a linear order took too long
	Empty      Kind = "empty"     // nothing was recorded
)

// Finding is one certain violation.
type Finding struct {
	Kind Kind
	// Subject is the subject claimed. For a register it is the subject of its writer's token, and for a silent
	// stop it is leadership.
	Subject Subject
	// Text describes the finding in one line.
	Text string
	// From and To bound the time in which the violation certainly lasted. For an overlap with a term that was
	// seen once, it happened at some instant in between.
	From, To Instant
	// Terms lists the terms concerned. For an overlap, the older one, by token, comes first. For an unserved
	// shard, it has the last owner.
	Terms []Term
	// Runs holds the samples of a silent node.
	Runs []Run
	// Ops lists the writes and reads concerned.
	Ops []Op
	// Mark is the mark that excuses an exempt finding, nil for others.
	Mark *Mark

	instant bool
}

// Length returns the time that the violation certainly lasted; 0 if it is only known to have happened at some
// instant.
func (f Finding) Length() time.Duration {
	if f.instant {
		return 0
	}
	return f.To.Sub(f.From)
}

// Verdict is the judgement of a history.
type Verdict struct {
	// Findings lists the broken promises.
	Findings []Finding
	// Exempt lists overlaps, and terms in the wrong order, that the design does not exclude and that stayed within
	// their bounds.
	Exempt []Finding
	// Seen holds the counts that the verdict rests on.
	Seen Seen

	history History
	pauses  map[Subject][]time.Duration
}

// OK reports whether no promise was broken.
func (v Verdict) OK() bool { return len(v.Findings) == 0 }

// FindingsOf returns the findings of one kind.
func (v Verdict) FindingsOf(k Kind) []Finding {
	var out []Finding
	for _, f := range v.Findings {
		if f.Kind == k {
			out = append(out, f)
		}
	}
	return out
}

// Seen counts the records of a history.
type Seen struct {
	Span                       time.Duration // from the first sample to the last
	Processes, Nodes           int           // Nodes counts each life of a node
	Samples, Terms, Marks      int           // Samples counts all subjects at once, Terms only leadership
	Accepted, Refused, Unknown int           // writes
	Reads, Entries             int

	Shards     int    // shards that were sampled
	Ownerships int    // terms of shards
	Pauses     Pauses // between the ownerships of a shard

	Locks, Grants, Shared          int // names; how often they were taken; how often of these shared
	Increments, Fenced, Unanswered int // increments accepted, refused, and of unknown outcome
	Effects, Attempts, Ran         int // names; calls of Once; calls that ran the function
	Unclear                        int // effects with an answer of unknown
	Late                           int // entries that did not count because the attempt had been abandoned

	Activations, Calls, Answered int // activations of objects; their calls; calls answered
}

func countSeen(h History, all []subjectClaims) Seen {
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
		if c.subject.hasKind(ofLock) {
			s.Locks++
			for _, t := range c.terms {
				s.Grants++
				if t.Shared {
					s.Shared++
				}
			}
			continue
		}
		if c.subject.hasKind(ofObject) {
			s.Activations += len(c.terms)
			continue
		}
		s.Shards++
		s.Ownerships += len(c.terms)
		lengths = append(lengths, pausesBetween(c.terms)...)
	}
	s.Pauses = summarizePauses(lengths)
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
	s.countEffects(h)
	for _, c := range h.Calls {
		s.Calls++
		if c.Return != 0 {
			s.Answered++
		}
	}
	return s
}

func (s *Seen) countEffects(h History) {
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
	for _, entered := range validEntries(h.Effects) {
		s.Late -= len(entered)
	}
	s.Effects, s.Unclear = len(names), len(unclear)
}
