package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Subject is what only one node at a time may claim, or what takes place only once.
type Subject string

// Leadership of the cluster is the subject of whatever names none. The other subjects
// are shards, where the token of a claim is its epoch, locks, effects and objects, whose token is the epoch
// of their shard.
const Leadership Subject = ""

const ofShard, ofLock, ofEffect, ofObject = "shard ", "lock ", "effect ", "object "

// Shard is ownership of a shard, by its number.
func Shard(n int) Subject { return Subject(fmt.Sprint(ofShard, n)) }

// Lock is a lock, by its name. Several may claim it at once if all of them share it.
func Lock(name string) Subject { return Subject(ofLock + name) }

// Effect is an effect, by its name.
func Effect(name string) Subject { return Subject(ofEffect + name) }

// Object is an object, by its service and its key.
func Object(service, key string) Subject { return Subject(ofObject + service + " " + key) }

// IsLock reports whether s is a lock.
func (s Subject) IsLock() bool { return s.is(ofLock) }

func (s Subject) is(kind string) bool { return strings.HasPrefix(string(s), kind) }

func (s Subject) String() string {
	if s == Leadership {
		return "leadership"
	}
	return string(s)
}

// token is what the token of a claim to s is called.
func (s Subject) token() string {
	if s.is(ofShard) || s.is(ofObject) {
		return "epoch"
	}
	return "token"
}

// several are two nodes that claim s at once.
func (s Subject) several() string {
	switch {
	case s == Leadership:
		return "two leaders"
	case s.is(ofLock):
		return fmt.Sprintf("two holders of %s", string(s))
	case s.is(ofObject):
		return fmt.Sprintf("two activations of %s", string(s))
	}
	return fmt.Sprintf("two owners of %s", string(s))
}

// excused reports whether a mark of that name can excuse an overlap about s: what is
// done to a place in one queue does nothing to who has what another one is about.
func (s Subject) excused(mark string) bool {
	switch mark {
	case KeyDeleted, OutsideLeads:
		return s == Leadership
	case LockDeleted:
		return s.is(ofLock)
	}
	return true
}

// claims are what was recorded about one subject.
type claims struct {
	subject Subject
	lives   [][]Run
	terms   []Term
}

// claims are those about each subject, leadership first and always there.
func (h History) claims() []claims {
	of := map[Subject][]Run{Leadership: nil}
	for _, r := range h.Runs {
		of[r.Subject] = append(of[r.Subject], r)
	}
	var out []claims
	for s, runs := range of {
		lives := livesOf(runs)
		out = append(out, claims{s, lives, terms(lives)})
	}
	slices.SortFunc(out, func(a, b claims) int {
		return cmp.Or(cmp.Compare(len(a.subject), len(b.subject)), cmp.Compare(a.subject, b.subject)) // by number
	})
	return out
}

// livesOf are the runs of each life of a node, in time order. All are about one subject.
func livesOf(runs []Run) [][]Run {
	of := map[Who][]Run{}
	for _, r := range runs {
		of[r.Who] = append(of[r.Who], r)
	}
	var out [][]Run
	for _, runs := range of {
		slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.First.Before, b.First.Before) })
		out = append(out, runs)
	}
	slices.SortFunc(out, func(a, b []Run) int { return cmp.Compare(a[0].First.Before, b[0].First.Before) })
	return out
}
