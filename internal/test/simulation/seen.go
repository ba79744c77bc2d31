package simulation

import (
	"fmt"
	"strings"
	"time"
)

// Occurrence is something that can happen in a run, and that a run must be able to
// bring about to be worth anything.
type Occurrence int

// The occurrences that are counted.
const (
	TermBegan Occurrence = iota
	ActingTerm
	Resigned
	GaveWay
	Withdrawn
	KeyLost
	SessionLost
	Superseded
	WorkAwaited
	WriteAccepted
	WriteRefused
	CameLate
	AnswerLost
	SessionExpired
	SessionPaused
	SessionRevoked
	SessionPermission
	SessionKeyLost
	WatchCompared
	KeyMissed
	KeyRewritten
	ViewReadAnew
	CampaignFailed
	Accused
	Refuted
	Withdrew
	DeadRemoved
	LivingRemoved
	CrashNoticed
	FarAccused
	Recorded
	Suspected
	Suspended
	Resumed
	PlanAccepted
	PlanActing
	PlanOutside
	PlanTooLate
	PlanOvertaken
	PlanBeside
	ShardAssigned
	ShardDrained
	ShardRebalanced
	ShardServed
	Reported
	Straggled
	StopDrained
	StopLast
	StopCut
	StopSilent
	MapTaken
	ReportTaken
	EarlyReported
	occurrences
)

func (o Occurrence) String() string {
	return [...]string{"terms", "terms in fallback", "terms ended: resigned", "terms ended: asked to give way",
		"terms ended: stopped", "terms ended: key lost", "terms ended: session lost", "terms ended: superseded",
		"terms ended with work to await", "guarded writes accepted", "guarded writes refused",
		"requests carried out after their sender gave up", "answers lost",
		"sessions lost: expired or etcd unreachable", "sessions lost: paused past the deadline",
		"sessions lost: revoked", "sessions lost: permission", "sessions lost: key lost",
		"views compared with etcd", "keys missed by a renewal", "keys put right", "views read anew",
		"requests of campaigns that failed", "accusations", "accusations refuted, as the accuser saw it",
		"accusations taken back", "members removed: dead", "members removed: alive",
		"crashes noticed in time, by each watcher that nothing kept from it",
		"accusations of members far from etcd", "records written anew", "suspicions", "sessions suspended",
		"sessions resumed", "shard maps accepted", "shard maps accepted of an acting leader",
		"shard maps accepted beside an outside candidate", "shard maps refused: planning was another's by then",
		"shard maps refused: the map was another by then",
		"shard maps of a second planner: a hand made the first look like no member",
		"shards assigned that had no owner", "shards drained off a member", "shards rebalanced", "shards served",
		"reports", "reports with stragglers", "stops: shards handed over", "stops: nobody to take over",
		"stops: shards not handed over", "stops: etcd did not answer", "shard maps taken by a hand",
		"reports taken by a hand", "registrations that say that etcd revoked the lease early"}[o]
}

// Exempt is what the design leaves out: a leader whose key or lease was taken.
type Exempt struct {
	Keyless        int           // went on leading until it noticed
	LongestKeyless time.Duration // since it was taken
	Overlaps       int           // and another one led as well
	Longest        time.Duration // how long both did
}

// besideBy is why two may hold one shard.
type besideBy int

const (
	afterHand    besideBy = iota // on the older one's session or node key
	afterRemoval                 // of the older one
	afterMapHand                 // on the map, or on the older one's report
	besides
)

// Beside is what the design leaves out of the shards: one that two held at once.
type Beside struct {
	Overlaps int
	Longest  time.Duration
	Late     int // began to be served by the older one after the newer one
}

// Seen counts what happened in a run, or in many.
type Seen struct {
	Faults []int // by kind
	Count  [occurrences]int
	Exempt [exempts]Exempt // by hand, by removal, and in fallback by an outside candidate
	Beside [besides]Beside // by hand, by removal, by a hand on the map
}

func newSeen(faults int) Seen { return Seen{Faults: make([]int, faults)} }

// Add adds what another run has seen.
func (s *Seen) Add(o Seen) {
	if s.Faults == nil {
		*s = newSeen(len(o.Faults))
	}
	for i, n := range o.Faults {
		s.Faults[i] += n
	}
	for i, n := range o.Count {
		s.Count[i] += n
	}
	for i, e := range o.Exempt {
		x := &s.Exempt[i]
		x.Keyless += e.Keyless
		x.LongestKeyless = max(x.LongestKeyless, e.LongestKeyless)
		x.Overlaps += e.Overlaps
		x.Longest = max(x.Longest, e.Longest)
	}
	for i, b := range o.Beside {
		s.Beside[i].Overlaps += b.Overlaps
		s.Beside[i].Late += b.Late
		s.Beside[i].Longest = max(s.Beside[i].Longest, b.Longest)
	}
}

// String is a table.
func (s Seen) String() string {
	var b strings.Builder
	for i, f := range everyFault() {
		fmt.Fprintf(&b, "%9d  fault: %s\n", s.Faults[i], f.name)
	}
	for i, n := range s.Count {
		fmt.Fprintf(&b, "%9d  %s\n", n, Occurrence(i))
	}
	for _, x := range []struct {
		by   by
		name string
	}{{hand, "an out-of-band change"}, {removal, "removal on evidence"}} {
		e := s.Exempt[x.by]
		fmt.Fprintf(&b, "%9d  exempt: leaders whose key was taken by %s (noticed after %v at most)\n",
			e.Keyless, x.name, e.LongestKeyless.Round(time.Millisecond))
		fmt.Fprintf(&b, "%9d  exempt: of these, overlaps with the next one (of %v at most)\n",
			e.Overlaps, e.Longest.Round(time.Millisecond))
	}
	e := s.Exempt[early]
	fmt.Fprintf(&b, "%9d  exempt: leaders whose lease etcd revoked early (noticed after %v at most)\n",
		e.Keyless, e.LongestKeyless.Round(time.Millisecond))
	fmt.Fprintf(&b, "%9d  exempt: of these, overlaps with one that could not know it (of %v at most)\n",
		e.Overlaps, e.Longest.Round(time.Millisecond))
	e = s.Exempt[partly]
	fmt.Fprintf(&b, "%9d  exempt: leaders whose lease etcd revoked early, and not all others (noticed after %v at most)\n",
		e.Keyless, e.LongestKeyless.Round(time.Millisecond))
	fmt.Fprintf(&b, "%9d  exempt: of these, overlaps with one that waited for a grace period (of %v at most)\n",
		e.Overlaps, e.Longest.Round(time.Millisecond))
	e = s.Exempt[outsideCandidate]
	fmt.Fprintf(&b, "%9d  exempt: acting leaders beside an outside candidate (for %v at most)\n",
		e.Overlaps, e.Longest.Round(time.Millisecond))
	for i, name := range []string{"its owner's key or lease was taken by a hand", "its owner was removed on evidence",
		"a hand was on the map or on a report"} {
		e := s.Beside[i]
		fmt.Fprintf(&b, "%9d  exempt: a shard held by two after %s (for %v at most; %d times the older owner began after "+
			"the newer one)\n", e.Overlaps, name,
			e.Longest.Round(time.Millisecond), e.Late)
	}
	return b.String()
}
