package leaderonly

import "time"

// Reason is the reason for refusing a request. Nothing of a refused request has run.
type Reason string

// The reasons.
const (
	// NotLeader means that another node leads.
	NotLeader Reason = "not-leader"
	// NoLeader means that no leader is known to this node, and that this did not change in time.
	NoLeader Reason = "no-leader"
	// NotReady means that this node is starting, or has stopped, and knows no leader.
	NotReady Reason = "not-ready"
	// HandingOver means that this node gives way, or is about to lead, and that it took too long.
	HandingOver Reason = "handing-over"
)

const (
	// settleDelay is the time for which a repeated request waits on a node that is not next in the queue. A request that
	// has waited for a new leader is held for it too, until that leader itself knows that it leads. The view of one
	// node may be slightly behind that of another.
	settleDelay = 25 * time.Millisecond
	// takeoverWait is the time for which a repeated request waits on the node that is next in the queue. Some crashes
	// are noticed within it. If a transfer caused the repetition, the wait is in vain, so it is not longer.
	takeoverWait = 200 * time.Millisecond
)

// requestHint describes the earlier path of a request, as given in its headers.
type requestHint struct {
	retry     bool  // all nodes refused it, or could not be reached
	forwarded bool  // another node has forwarded it
	token     int64 // the token of the leader known to that node; 0 if unknown
}

// decision is the decision about a request that this process may not answer.
type decision int

const (
	decisionElsewhere   decision = iota // another node leads
	decisionHold                        // wait: there will be a leader, or a newer view
	decisionWaitBriefly                 // wait briefly: there may be another leader, or a newer view
)

// decideRequest decides from the known leader l. next reports whether this process is next in the queue, held whether
// the request has waited for a leader here, and tried whether forwarding it to that leader failed. moment is the time
// to wait briefly.
func decideRequest(l Leader, next bool, h requestHint, held, tried bool) (_ decision, moment time.Duration) {
	switch {
	case l.Name == "" || l.Own:
		return decisionHold, 0
	case h.forwarded && h.token > l.Token && l.Token != 0:
		// The forwarding node knows a newer leader, and soon this node does too. But its token may also belong to
		// another history, and any client can send the header.
		return decisionWaitBriefly, takeoverWait
	case tried:
		return decisionHold, 0 // for another leader
	case h.retry && next:
		return decisionWaitBriefly, takeoverWait // the leader refuses it, or is dead
	case h.retry, held:
		return decisionWaitBriefly, settleDelay
	}
	return decisionElsewhere, 0
}

// reasonOf returns the reason for refusing a request that was not answered.
func reasonOf(l Leader) Reason {
	switch {
	case l.Own:
		return HandingOver
	case l.Name == "":
		return NoLeader
	}
	return NotLeader
}
