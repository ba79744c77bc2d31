package history

import (
	"fmt"
	"time"
)

// The parts of histories. Times are in milliseconds.

func ms(n int) Instant { return Instant(n) * Instant(time.Millisecond) }

func newWindow(b, a int) Window { return Window{ms(b), ms(a)} }

func nodeLife(node string) NodeLife { return NodeLife{Process: "p-" + node, Node: node} }

// leadingRun is a run in which a node leads; the first and the last sample have windows.
func leadingRun(node string, token int64, first, last Window) Run {
	return Run{NodeLife: nodeLife(node), Leads: true, Token: token, State: Leader, First: first, Last: last, Count: 2}
}

// seenOnce is a run of one sample in which a node leads.
func seenOnce(node string, token int64, w Window) Run {
	r := leadingRun(node, token, w, w)
	r.Count = 1
	return r
}

// idleRun is a run in which a node does not lead.
func idleRun(node string, s State, from, to int) Run {
	return Run{NodeLife: nodeLife(node), State: s, First: newWindow(from, from+1), Last: newWindow(to-1, to), Count: 2}
}

// newMark is an intervention or fault; with to 0 it does not end.
func newMark(node, name string, from, to int) Mark {
	return Mark{Process: "test", ID: int64(from), Node: node, Name: name, From: ms(from), To: ms(to)}
}

// opLog records operations on one register.
type opLog struct{ ops []Op }

func (b *opLog) addOp(node string, call, ret int) *Op {
	b.ops = append(b.ops, Op{Process: "p-" + node, ID: int64(len(b.ops)), Node: node, Key: "r",
		Call: ms(call), Return: ms(ret), Outcome: OutcomeAccepted})
	return &b.ops[len(b.ops)-1]
}

// addWrite is a write accepted at a revision; its value is derived from its number.
func (b *opLog) addWrite(node string, token, revision int64, call, ret int) *Op {
	op := b.addOp(node, call, ret)
	op.Write, op.Token, op.Revision, op.Value = true, token, revision, fmt.Sprint("v", op.ID)
	return op
}

// addRead is a read of a write's value.
func (b *opLog) addRead(node string, of Op, revision int64, call, ret int) *Op {
	op := b.addOp(node, call, ret)
	op.Token, op.Value, op.Revision = of.Token, of.Value, revision
	return op
}

// withoutAnswer removes the answer to a write.
func (o *Op) withoutAnswer() Op {
	o.Outcome, o.Revision, o.Return = OutcomeUnknown, 0, 0
	return *o
}

// watchedEntry is the entry of a write, as a watch delivers it.
func watchedEntry(op Op, revision int64, at int) Entry {
	return Entry{Key: op.Key, Revision: revision, Token: op.Token, Value: op.Value, At: ms(at)}
}

// leadershipLives returns the runs of each life of a node, about leadership.
func (h History) leadershipLives() [][]Run { return h.claimsBySubject()[0].lives }

// ofShard changes a run into one about a shard.
func (r Run) ofShard(shard int) Run {
	r.Subject, r.State = Shard(shard), Unknown
	return r
}
