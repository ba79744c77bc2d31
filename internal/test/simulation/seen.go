package simulation

import (
	"fmt"
	"strings"
	"time"
)

// Occurrence is an event that a run can have. The runs together must have all of them to be worth anything.
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
	StopRecorded
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
		"stops: shards not handed over", "stops: etcd did not answer", "stops: recorded that nobody need wait",
		"shard maps taken by a hand",
		"reports taken by a hand", "registrations that say that etcd revoked the lease early"}[o]
}

// Exempt counts cases that the design excludes from its promises: a leader lost its key or lease to another
// process.
type Exempt struct {
	Keyless        int           // leaders that continued until they noticed
	LongestKeyless time.Duration // since the loss
	Overlaps       int           // cases in which another process led as well
	Longest        time.Duration // duration of such an overlap
}

// besideCause is the reason why two processes may hold one shard.
type besideCause int

const (
	besideOutOfBand besideCause = iota // an out-of-band change of the older one's session or node key
	besideRemoval                      // a removal of the older one
	besideMapChange                    // an out-of-band change of the map, or of the older one's report
	besideCauses
)

// Beside counts shards that two processes held at once in cases that the design excludes from its promises.
type Beside struct {
	Overlaps int
	Longest  time.Duration
	Late     int // cases in which the older one began to serve after the newer one
}

// Seen counts the events of one run or of many.
type Seen struct {
	Faults []int // by index in the catalogue
	Count  [occurrences]int
	Exempt [exempts]Exempt      // by originator
	Beside [besideCauses]Beside // by reason
}

func newSeen(faults int) Seen { return Seen{Faults: make([]int, faults)} }

// Add adds the counts of another run.
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

// String returns the counts as a table.
func (s Seen) String() string {
	var b strings.Builder
	for i, f := range allFaults() {
		fmt.Fprintf(&b, "%9d  fault: %s\n", s.Faults[i], f.name)
	}
	for i, n := range s.Count {
		fmt.Fprintf(&b, "%9d  %s\n", n, Occurrence(i))
	}
	for _, x := range []struct {
		by   originator
		name string
	}{{byOutOfBand, "an out-of-band change"}, {byRemoval, "removal on evidence"}} {
		e := s.Exempt[x.by]
		fmt.Fprintf(&b, "%9d  exempt: leaders whose key was taken by %s (noticed after %v at most)\n",
			e.Keyless, x.name, e.LongestKeyless.Round(time.Millisecond))
		fmt.Fprintf(&b, "%9d  exempt: of these, overlaps with the next one (of %v at most)\n",
			e.Overlaps, e.Longest.Round(time.Millisecond))
	}
	e := s.Exempt[byEtcdEarly]
	fmt.Fprintf(&b, "%9d  exempt: leaders whose lease etcd revoked early (noticed after %v at most)\n",
		e.Keyless, e.LongestKeyless.Round(time.Millisecond))
	fmt.Fprintf(&b, "%9d  exempt: of these, overlaps with one that could not know it (of %v at most)\n",
		e.Overlaps, e.Longest.Round(time.Millisecond))
	e = s.Exempt[byEtcdPartly]
	fmt.Fprintf(&b, "%9d  exempt: leaders whose lease etcd revoked early, and not all others (noticed after %v at most)\n",
		e.Keyless, e.LongestKeyless.Round(time.Millisecond))
	fmt.Fprintf(&b, "%9d  exempt: of these, overlaps with one that waited for a grace period (of %v at most)\n",
		e.Overlaps, e.Longest.Round(time.Millisecond))
	e = s.Exempt[byOutsideCandidate]
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
