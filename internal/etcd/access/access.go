// Package access holds the table of the key ranges in etcd that each kind of program needs rights on, with
// their purpose. goversed rbac prints the table as commands, goversed doctor tries each range, and
// docs/operate/tls-and-rbac.md shows it. The package is pure.
//
// Not promised: rights for a program's own keys, such as the stored state of objects or the keys that a term's
// transactions write. Only goversed etcd replace needs the role root.
package access

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goverse/goverse/internal/state"
)

// ErrBadProgram is wrapped by the errors of ParseProgram.
var ErrBadProgram = errors.New("unknown program")

// Program is a kind of program.
type Program string

// The kinds of programs.
const (
	// Node is a process that links Goverse, or goversed node.
	Node Program = "node"
	// Election is a process that takes part in the cluster's election and nothing else; see package leaderelection.
	Election Program = "election"
	// Exec is goversed exec.
	Exec Program = "exec"
	// Lock is goversed lock.
	Lock Program = "lock"
	// Operator is every other use of goversed from outside: status, transfer, drain, elections, locks, effects,
	// processors.
	Operator Program = "operator"
)

// Programs returns all kinds.
func Programs() []Program { return []Program{Node, Election, Exec, Lock, Operator} }

// ParseProgram returns the Program with the given name. Its errors match ErrBadProgram and list the choices.
func ParseProgram(s string) (Program, error) {
	var all []string
	for _, p := range Programs() {
		if s == string(p) {
			return p, nil
		}
		all = append(all, string(p))
	}
	last := len(all) - 1
	return "", fmt.Errorf("%w %q: give %s or %s", ErrBadProgram, s, strings.Join(all[:last], ", "), all[last])
}

// Right is a permission on the keys of a range.
type Right int

// The rights. A watch needs Read; deletions need ReadWrite, as writes do.
const (
	Read Right = iota + 1
	ReadWrite
)

// String returns the right as etcdctl role grant-permission accepts it.
func (r Right) String() string {
	if r == Read {
		return "read"
	}
	return "readwrite"
}

// Words returns the right as it is written in a sentence.
func (r Right) Words() string {
	if r == Read {
		return "READ"
	}
	return "READ and WRITE"
}

// Part is a place in a range that a program writes to.
type Part struct {
	// Key is a single key, or, if it ends with a slash, a prefix of keys.
	Key string
	// Purpose is the purpose of these keys.
	Purpose string
}

// Range is a range of keys with the right that a program needs on it.
type Range struct {
	// Start is the first key. End is the end of the range, exclusive; "" if the range is the single key Start.
	Start, End string
	// Prefix means that the range is all keys that begin with Start.
	Prefix bool
	Right  Right
	// Purpose is the program's purpose for the range.
	Purpose string
	// Always means that every program of this kind needs the range. Otherwise only programs that use the
	// purpose do.
	Always bool
	// Parts are the places that the program writes to; none with Read.
	Parts []Part
}

// String names the range as in a sentence: "the range A to B", "the prefix A" or "the key A".
func (r Range) String() string {
	switch {
	case r.Prefix:
		return "the prefix " + r.Start
	case r.End == "":
		return "the key " + r.Start
	}
	return "the range " + r.Start + " to " + r.End
}

// Ranges returns the ranges that a program needs in a cluster with these keys, in the order of the keys.
func Ranges(keys state.Keys, p Program) []Range {
	elections := prefixRange(keys.Elections().Root(), ReadWrite, "named elections")
	switch p {
	case Exec:
		elections.Always = true
		return []Range{elections}
	case Lock:
		locks := prefixRange(keys.Locks().Root(), ReadWrite, "locks")
		locks.Always = true
		return []Range{locks}
	case Operator:
		return operatorRanges(keys, elections)
	case Election:
		return electionRanges(keys)
	}
	silence := prefixRange(keys.SilenceAccusations(), ReadWrite, "accusations of silence")
	events := prefixRange(keys.Prefix()+"/events/", ReadWrite, "the log of events")
	work := prefixRange(keys.Prefix()+"/work/", ReadWrite, "locks, effects and checkpoints")
	work.Parts = []Part{{keys.Locks().Root(), "locks"}, {keys.Effects().Root(), "effects"},
		{keys.EffectMarks(), "marks of effects"}, {keys.Checkpoints(), "checkpoints"},
		{keys.Prefix() + "/work/parked/", "parked events"},
		{keys.Prefix() + "/work/pauses/", "pauses of processors"},
		{keys.Prefix() + "/work/reports/", "reports of processors"},
		{keys.Prefix() + "/work/retries/", "retries"}, {keys.Prefix() + "/work/leases/", "electors"}}
	own := Range{Start: keys.RangeStart(), End: keys.RangeEnd(), Right: ReadWrite, Always: true,
		Purpose: "the cluster itself: leadership, nodes, shards",
		Parts: []Part{{keys.Queue(), "candidacy"}, {keys.Acting(), "fallback"}, {keys.Request(), "requests"},
			{keys.Nodes(), "registration"}, {keys.Prefix() + "/nodes-accused/", "crash detection"},
			{keys.Prefix() + "/nodes-drain/", "drains"}, {keys.Silences(), "silent nodes"}, {keys.ShardMap(), "the shard map"},
			{keys.Prefix() + "/shards/released/", "released shards"}}}
	return []Range{silence, elections, events, own, work}
}

func electionRanges(keys state.Keys) []Range {
	queue, nodes := prefixRange(keys.Queue(), ReadWrite, "candidacy"), prefixRange(keys.Nodes(), ReadWrite, "registration")
	queue.Always, nodes.Always = true, true
	return []Range{
		{Start: keys.RangeStart(), End: keys.RangeEnd(), Right: Read, Always: true, Purpose: "the members and the leader"},
		{Start: keys.Request(), Right: ReadWrite, Purpose: "transfers", Parts: []Part{{keys.Request(), "requests"}}},
		queue, nodes}
}

// RequiredRights names the rights that every program of that kind needs, as in a sentence.
func RequiredRights(keys state.Keys, p Program) string {
	var all []string
	for _, r := range Ranges(keys, p) {
		if r.Always {
			all = append(all, r.Right.Words()+" on "+r.String())
		}
	}
	return strings.Join(all, ", ")
}

func operatorRanges(keys state.Keys, elections Range) []Range {
	request := Range{Start: keys.Request(), Right: ReadWrite, Purpose: "goversed resign and transfer",
		Parts: []Part{{keys.Request(), "requests"}}}
	marks := prefixRange(keys.EffectMarks(), ReadWrite, "goversed effects resolve")
	elections.Purpose = "goversed elections"
	return []Range{elections,
		prefixRange(keys.Prefix()+"/events/", ReadWrite, "goversed events, and what goversed processors records"),
		{Start: keys.RangeStart(), End: keys.RangeEnd(), Right: Read, Always: true, Purpose: "goversed status and its like"},
		request,
		prefixRange(keys.Prefix()+"/nodes-drain/", ReadWrite, "goversed drain"),
		prefixRange(keys.Effects().Root(), ReadWrite, "goversed effects"),
		prefixRange(keys.Locks().Root(), Read, "goversed locks"),
		marks,
		prefixRange(keys.Checkpoints(), ReadWrite, "goversed processors rewind, reset and unfence"),
		prefixRange(keys.Prefix()+"/work/parked/", ReadWrite, "goversed processors drop"),
		prefixRange(keys.Prefix()+"/work/pauses/", ReadWrite, "goversed processors pause and resume"),
		prefixRange(keys.Prefix()+"/work/reports/", Read, "goversed processors"),
		prefixRange(keys.Prefix()+"/work/retries/", ReadWrite, "goversed processors retry")}
}

// prefixRange returns the range of all keys that begin with start, which ends with a slash.
func prefixRange(start string, right Right, what string) Range {
	r := Range{Start: start, End: strings.TrimSuffix(start, "/") + "0", Prefix: true, Right: right, Purpose: what}
	if right == ReadWrite {
		r.Parts = []Part{{start, what}}
	}
	return r
}
