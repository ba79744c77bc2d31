package history

import (
	"fmt"
	"time"
)

// History is what was recorded, of one process or of several, merged. The order
// within its slices carries no meaning.
type History struct {
	Processes []Process
	Runs      []Run
	Marks     []Mark
	Ops       []Op
	Entries   []Entry
	Gaps      []Gap
	Attempts  []Attempt
	Effects   []Entered // alone of all, in the ledger's order
	Calls     []ObjectCall
}

// Process is one that recorded.
type Process struct {
	Name string    `json:"name"`
	PID  int       `json:"pid"`
	At   Instant   `json:"at"`   // when the recording began
	Wall time.Time `json:"wall"` // the same moment on the wall clock, for people
}

// Who names one life of a node: a name may be used again after a restart, in
// another process or in the same.
type Who struct {
	Process string `json:"proc"`
	Node    string `json:"node"`
	Life    int    `json:"life,omitempty"` // counted from 0 for each name in a process
}

// State is coarsely what a node does.
type State string

// The states. Unknown is that of a node that is not asked for it.
const (
	Unknown   State = ""
	Leader    State = "leader"
	Candidate State = "candidate"  // waits in the queue
	Observer  State = "observer"   // registered, and does not stand for election
	Failed    State = "failed"     // registered, and says why its election fails
	Stopped   State = "stopped"    // not started yet, or stopped by its program
	Follower  State = "follower"   // registered, stands for election, and is not queued
	NoSession State = "no session" // runs, and has none
)

// idle reports whether a node that stays so has stopped silently.
func (s State) idle() bool { return s == Follower || s == NoSession }

// Run is a row of equal samples of one node about one subject.
type Run struct {
	Who
	Subject Subject `json:"subject,omitempty"`
	Leads   bool    `json:"leads,omitempty"`   // it claims the subject: leads, serves the shard, holds the lock, is active
	Shared  bool    `json:"shared,omitempty"`  // it shares the lock
	Token   int64   `json:"token,omitempty"`   // 0 while it claims nothing, or claims it by none
	Session int64   `json:"session,omitempty"` // on which it leads, serves the shard, or has the object active
	State   State   `json:"state,omitempty"`   // of runs about leadership only
	First   Window  `json:"first"`
	Last    Window  `json:"last"`
	Count   int     `json:"n"`
}

// The marks that can excuse an overlap, if [Limits] say so: what the design does not
// promise. Any other name marks a fault.
const (
	LeaseRevoked = "lease revoked" // out of band
	KeyDeleted   = "key deleted"   // of a leader, out of band
	LockDeleted  = "lock deleted"  // the key of one who holds a lock, out of band
	RemovedAlive = "removed alive" // on evidence, though it lived
	// RevokedByEtcd: etcd itself revoked a lease that was renewed: a leader of etcd that was
	// deposed while it stood still takes the leases for run out by its own clock (etcd #15247).
	RevokedByEtcd = "revoked by etcd"
	OutsideLeads  = "outside leads" // a candidate from outside, while this node acts in fallback
)

// Mark is a fault or an intervention, done to a node or to all. An intervention took
// place at some instant from From to To; a fault lasted that long.
type Mark struct {
	Process string  `json:"proc"` // that recorded it
	ID      int64   `json:"id"`   // in that process
	Node    string  `json:"node,omitempty"`
	Name    string  `json:"name"`
	Text    string  `json:"text,omitempty"`
	From    Instant `json:"from"`
	To      Instant `json:"to,omitempty"` // 0: it did not end
}

// ended is To, or later than everything.
func (m Mark) ended() Instant {
	if m.To == 0 {
		return forever
	}
	return m.To
}

// concerns reports whether m was done to that node.
func (m Mark) concerns(node string) bool { return m.Node == "" || m.Node == node }

const forever Instant = 1<<63 - 1

// Outcome is what came of an operation.
type Outcome string

// The outcomes.
const (
	OutcomeUnknown  Outcome = "unknown"  // no answer, or one that leaves it open
	OutcomeAccepted Outcome = "accepted" // of a read: answered
	OutcomeRefused  Outcome = "refused"  // because the term was over
)

// Op is a guarded write to a register, or a read of it. A register that is written by
// increments alone is a counter.
type Op struct {
	Process  string  `json:"proc"`
	ID       int64   `json:"id"` // in that process
	Node     string  `json:"node"`
	Key      string  `json:"key"`               // the register
	Subject  Subject `json:"subject,omitempty"` // whose claimant writes it
	Write    bool    `json:"write,omitempty"`
	Token    int64   `json:"token,omitempty"`  // of the write, or read
	Value    string  `json:"value,omitempty"`  // no two writes have the same; "" reads a register never written
	Counts   bool    `json:"counts,omitempty"` // the write is an increment: nothing else was written since Base
	Base     string  `json:"base,omitempty"`   // what the increment had read
	Call     Instant `json:"call"`
	Return   Instant `json:"return,omitempty"` // 0 if it did not
	Outcome  Outcome `json:"outcome"`
	Revision int64   `json:"rev,omitempty"` // etcd's, of the write accepted, or of the write that was read
	Error    string  `json:"error,omitempty"`
}

func (o Op) String() string {
	what := "read"
	switch {
	case o.Counts:
		what = fmt.Sprintf("increment from %q to", o.Base)
	case o.Write:
		what = "write of"
	}
	s := fmt.Sprintf("%s %q by %s %d, %s", what, o.Value, o.Subject.token(), o.Token, o.Outcome)
	if o.Revision != 0 {
		s += fmt.Sprintf(" at revision %d", o.Revision)
	}
	if o.Error != "" {
		s += " (" + o.Error + ")"
	}
	return s
}

// Entry is one state of a register in etcd's own order, as a watch delivered it.
type Entry struct {
	Key      string  `json:"key"`
	Subject  Subject `json:"subject,omitempty"`
	Revision int64   `json:"rev"`
	Token    int64   `json:"token,omitempty"`
	Value    string  `json:"value,omitempty"`
	Deleted  bool    `json:"deleted,omitempty"`
	At       Instant `json:"at"` // when it was delivered
}

// Gap says that a register's entries from From to before To are not known: etcd had
// compacted them before the watch reached them.
type Gap struct {
	Key  string `json:"key"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

// Merge is everything that was recorded in any of them.
func Merge(histories ...History) History {
	var all History
	for _, h := range histories {
		all.Processes = append(all.Processes, h.Processes...)
		all.Runs = append(all.Runs, h.Runs...)
		all.Marks = append(all.Marks, h.Marks...)
		all.Ops = append(all.Ops, h.Ops...)
		all.Entries = append(all.Entries, h.Entries...)
		all.Gaps = append(all.Gaps, h.Gaps...)
		all.Attempts = append(all.Attempts, h.Attempts...)
		all.Effects = append(all.Effects, h.Effects...)
		all.Calls = append(all.Calls, h.Calls...)
	}
	return all
}
