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
	// NotReady: this node is starting, or has stopped, and knows of nobody.
	NotReady Reason = "not-ready"
	// HandingOver: this node gives way, or is about to lead, and that took too long.
	HandingOver Reason = "handing-over"
)

const (
	// settle is how long a request that comes again waits on a node that is not the next to lead, and one
	// that has waited for the next leader until that knows of it, too: the view of one node may be a moment
	// behind that of another.
	settle = 25 * time.Millisecond
	// takeover is how long one that comes again waits on the node that is next: some crashes are noticed
	// in that time. If it was a transfer that sent it round, it waits for nothing, so it is not longer.
	takeover = 200 * time.Millisecond
)

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
	linger                   // there may be another leader, or a newer view, in a moment
)

// judge decides by what is known of the leader; next: this process is next in the queue; held: the
// request has waited for a leader here; tried: to forward it to that leader has failed. moment is how long
// to linger.
func judge(l Leader, next bool, h hint, held, tried bool) (_ verdict, moment time.Duration) {
	switch {
	case l.Name == "" || l.Own:
		return hold, 0
	case h.forwarded && h.token > l.Token && l.Token != 0:
		// The node that forwarded it knows more, and soon this one does; but it may also say so of another history, and
		// anybody may say so.
		return linger, takeover
	case tried:
		return hold, 0 // for another one
	case h.retry && next:
		return linger, takeover // the leader refuses it, or is dead
	case h.retry, held:
		return linger, settle
	}
	return elsewhere, 0
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
