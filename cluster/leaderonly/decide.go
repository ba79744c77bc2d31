package leaderonly

import "time"

// Reason is why a request was refused. Nothing of it has run.
type Reason string

// The reasons.
const (
	// NotLeader: another node leads.
	NotLeader Reason = "not-leader"
	// NoLeader: nobody leads, or this node cannot say who does, and it did not change in time.
	NoLeader Reason = "no-leader"
	// HandingOver: this node gives way, or is about to lead, and that took too long.
	HandingOver Reason = "handing-over"
)

// settle is how long a request that comes again waits on a node that is not the next to lead: its view
// may be a moment behind those of the nodes that sent the request on.
const settle = 25 * time.Millisecond

// hint is what a request says of its way so far.
type hint struct {
	retry     bool  // it was refused before, or did not reach the leader
	forwarded bool  // another node has forwarded it
	token     int64 // of the leader that node knew; 0: not known
}

// verdict is what to do with a request that this process may not answer.
type verdict int

const (
	elsewhere verdict = iota // another one leads
	hold                     // there will be a leader, or a newer view
	briefly                  // the same, for settle
)

// judge decides by what is known of the leader; next: this process is next in the queue.
func judge(l Leader, next bool, h hint) verdict {
	switch {
	case l.Name == "" || l.Own:
		return hold
	case h.forwarded && h.token > l.Token && l.Token != 0:
		return hold // the node that forwarded it knows more
	case h.retry && next:
		return hold // the leader refuses it, or is dead
	case h.retry:
		return briefly
	}
	return elsewhere
}

// reasonOf is why a request that was not answered is refused.
func reasonOf(l Leader) Reason {
	switch {
	case l.Own:
		return HandingOver
	case l.Name == "":
		return NoLeader
	}
	return NotLeader
}
