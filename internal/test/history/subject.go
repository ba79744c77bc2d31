package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Subject identifies something that only one node at a time may claim, or that takes place only once.
type Subject string

// Leadership is leadership of the cluster, the default subject. The other subjects are shards, locks, effects
// and objects. The token of a claim to a shard is its epoch; for an object it is the epoch of its shard.
const Leadership Subject = ""

const ofShard, ofLock, ofEffect, ofObject = "shard ", "lock ", "effect ", "object "

// Shard returns the subject for ownership of shard n.
func Shard(n int) Subject { return Subject(fmt.Sprint(ofShard, n)) }

// Lock returns the subject for the named lock. Several nodes may claim it at once if all of them share it.
func Lock(name string) Subject { return Subject(ofLock + name) }

// Effect returns the subject for the named effect.
func Effect(name string) Subject { return Subject(ofEffect + name) }

// Object returns the subject for the object with this service and key.
func Object(service, key string) Subject { return Subject(ofObject + service + " " + key) }

// IsLock reports whether s is a lock.
func (s Subject) IsLock() bool { return s.hasKind(ofLock) }

func (s Subject) hasKind(kind string) bool { return strings.HasPrefix(string(s), kind) }

func (s Subject) String() string {
	if s == Leadership {
		return "leadership"
	}
	return string(s)
}

// tokenName returns the name for the token of a claim to s.
func (s Subject) tokenName() string {
	if s.hasKind(ofShard) || s.hasKind(ofObject) {
		return "epoch"
	}
	return "token"
}

// describeOverlap describes two nodes that claim s at once.
func (s Subject) describeOverlap() string {
	switch {
	case s == Leadership:
		return "two leaders"
	case s.hasKind(ofLock):
		return fmt.Sprintf("two holders of %s", string(s))
	case s.hasKind(ofObject):
		return fmt.Sprintf("two activations of %s", string(s))
	}
	return fmt.Sprintf("two owners of %s", string(s))
}

// isExcusedBy reports whether a mark of that name can excuse an overlap about s. A deleted key in one queue does
// not affect the subjects of other queues.
func (s Subject) isExcusedBy(mark string) bool {
	switch mark {
	case KeyDeleted, OutsideLeads:
		return s == Leadership
	case LockDeleted:
		return s.hasKind(ofLock)
	}
	return true
}

// subjectClaims holds the records of one subject.
type subjectClaims struct {
	subject Subject
	lives   [][]Run
	terms   []Term
}

// claimsBySubject returns the claims to each subject. Leadership comes first and is always included.
func (h History) claimsBySubject() []subjectClaims {
	of := map[Subject][]Run{Leadership: nil}
	for _, r := range h.Runs {
		of[r.Subject] = append(of[r.Subject], r)
	}
	var out []subjectClaims
	for s, runs := range of {
		lives := livesOf(runs)
		out = append(out, subjectClaims{s, lives, termsOfLives(lives)})
	}
	slices.SortFunc(out, func(a, b subjectClaims) int {
		return cmp.Or(cmp.Compare(len(a.subject), len(b.subject)), cmp.Compare(a.subject, b.subject)) // by number
	})
	return out
}

// livesOf returns the runs of each life of a node, in time order. All runs are about one subject.
func livesOf(runs []Run) [][]Run {
	of := map[NodeLife][]Run{}
	for _, r := range runs {
		of[r.NodeLife] = append(of[r.NodeLife], r)
	}
	var out [][]Run
	for _, runs := range of {
		slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.First.Before, b.First.Before) })
		out = append(out, runs)
	}
	slices.SortFunc(out, func(a, b []Run) int { return cmp.Compare(a[0].First.Before, b[0].First.Before) })
	return out
}
