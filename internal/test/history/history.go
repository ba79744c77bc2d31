package history

import (
	"fmt"
	"time"
)

// History holds the records of one process or, merged, of several. The order within its slices has no meaning,
// except for Effects.
type History struct {
	Processes []Process
	Runs      []Run
	Marks     []Mark
	Ops       []Op
	Entries   []Entry
	Gaps      []Gap
	Attempts  []Attempt
	Effects   []LedgerEntry // in the ledger's order
	Calls     []ObjectCall
}

// Process describes one recording process.
type Process struct {
	Name string    `json:"name"`
	PID  int       `json:"pid"`
	At   Instant   `json:"at"`   // start of the recording
	Wall time.Time `json:"wall"` // the same moment on the wall clock, for readers
}

// NodeLife identifies one life of a node. A name may be used again after a restart, in another process or in the
// same one.
type NodeLife struct {
	Process string `json:"proc"`
	Node    string `json:"node"`
	Life    int    `json:"life,omitempty"` // counted from 0 for each name in a process
}

// State is a coarse description of a node's activity.
type State string

// The states. Unknown is the state of a node that is not asked for one.
const (
	Unknown   State = ""
	Leader    State = "leader"
	Candidate State = "candidate"  // waits in the queue
	Observer  State = "observer"   // registered, does not stand for election
	Failed    State = "failed"     // registered, reports that its election fails
	Stopped   State = "stopped"    // not started yet, or stopped by its program
	Follower  State = "follower"   // registered, stands for election, not queued
	NoSession State = "no session" // runs without a session
)

// isIdle reports whether a node that remains in this state has stopped silently.
func (s State) isIdle() bool { return s == Follower || s == NoSession }

// Run is a sequence of equal samples of one node about one subject.
type Run struct {
	NodeLife
	Subject Subject `json:"subject,omitempty"`
	Leads   bool    `json:"leads,omitempty"`   // claims the subject: leads, serves the shard, holds the lock, is active
	Shared  bool    `json:"shared,omitempty"`  // shares the lock
	Token   int64   `json:"token,omitempty"`   // 0 for no claim, or for a claim without a token
	Session int64   `json:"session,omitempty"` // session on which it leads, serves the shard, or has the object active
	State   State   `json:"state,omitempty"`   // only in runs about leadership
	First   Window  `json:"first"`
	Last    Window  `json:"last"`
	Count   int     `json:"n"`
}

// Names of the marks that [Limits] can let excuse an overlap, because the design makes no promise about them. A
// mark of any other name excuses nothing.
const (
	LeaseRevoked = "lease revoked" // out of band
	KeyDeleted   = "key deleted"   // a leader's key, out of band
	LockDeleted  = "lock deleted"  // the key of a lock's holder, out of band
	RemovedAlive = "removed alive" // a living node, on evidence
	// RevokedByEtcd marks that etcd itself revoked a renewed lease. A leader of etcd that was deposed while it
	// stood still considers leases expired by its own clock (etcd #15247).
	RevokedByEtcd = "revoked by etcd"
	OutsideLeads  = "outside leads" // a candidate that is no node led while this node acted in fallback
)

// Mark is a fault or an intervention at one node or at all. An intervention took place at some instant between
// From and To; a fault lasted from From to To.
type Mark struct {
	Process string  `json:"proc"` // process that recorded it
	ID      int64   `json:"id"`   // unique in that process
	Node    string  `json:"node,omitempty"`
	Name    string  `json:"name"`
	Text    string  `json:"text,omitempty"`
	From    Instant `json:"from"`
	To      Instant `json:"to,omitempty"` // 0 if it did not end
}

// endInstant returns To, or forever if the mark did not end.
func (m Mark) endInstant() Instant {
	if m.To == 0 {
		return forever
	}
	return m.To
}

// concerns reports whether m applies to the node.
func (m Mark) concerns(node string) bool { return m.Node == "" || m.Node == node }

const forever Instant = 1<<63 - 1

// Outcome classifies the result of an operation.
type Outcome string

// The outcomes.
const (
	OutcomeUnknown  Outcome = "unknown"  // no answer, or one that leaves it open
	OutcomeAccepted Outcome = "accepted" // of a read: answered
	OutcomeRefused  Outcome = "refused"  // because the term was over
)

// Op is a guarded write to a register, or a read of it. A register that is written only by increments is a
// counter.
type Op struct {
	Process  string  `json:"proc"`
	ID       int64   `json:"id"` // unique in that process
	Node     string  `json:"node"`
	Key      string  `json:"key"`               // the register's key
	Subject  Subject `json:"subject,omitempty"` // claimed by the writer
	Write    bool    `json:"write,omitempty"`
	Token    int64   `json:"token,omitempty"`  // of the write, or read from the register
	Value    string  `json:"value,omitempty"`  // unique among writes; "" for a read of a register never written
	Counts   bool    `json:"counts,omitempty"` // the write is an increment: no other write came since Base
	Base     string  `json:"base,omitempty"`   // value that the increment had read
	Call     Instant `json:"call"`
	Return   Instant `json:"return,omitempty"` // 0 if it did not return
	Outcome  Outcome `json:"outcome"`
	Revision int64   `json:"rev,omitempty"` // etcd's, of the accepted write, or of the write that was read
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
	s := fmt.Sprintf("%s %q by %s %d, %s", what, o.Value, o.Subject.tokenName(), o.Token, o.Outcome)
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
	At       Instant `json:"at"` // time of delivery
}

// Gap records that a register's entries with revisions from From up to, but not including, To are unknown,
// because etcd had compacted them before the watch reached them.
type Gap struct {
	Key  string `json:"key"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

// Merge returns the union of the histories.
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
