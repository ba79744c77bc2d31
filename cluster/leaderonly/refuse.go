package leaderonly

import (
	"net/http"

	"github.com/goverse/goverse/cluster/internal/problem"
)

// The headers of this package.
const (
	// LeaderHeader has the leader's URL, in an answer that is not the leader's.
	LeaderHeader = "Goverse-Leader"
	// RefusedHeader has the [Reason] why a request was refused, of which nothing has run.
	RefusedHeader = "Goverse-Refused"
	// RetryHeader, in a request, says that all nodes have refused it or could not be reached: see the
	// package comment. Any value but "" and 0 counts.
	RetryHeader = "Goverse-Retry"
	// ForwardedHeader, in a request, says that another node has forwarded it: it is not forwarded again.
	// Its value is the token of the leader that node knew.
	ForwardedHeader = "Goverse-Forwarded"
)

// retryAfter is in seconds: one is the least that the header can say.
const retryAfter = "1"

// Problem is the body of what this package answers itself, as RFC 9457 has it.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Reason Reason `json:"reason"`
	Leader string `json:"leader,omitempty"` // its URL
}

// OutcomeUnknown is the reason of a 502: a forwarded request may have been carried out.
const OutcomeUnknown Reason = "outcome-unknown"

var titles = map[Reason]string{
	NotLeader:      "Not the leader",
	NoLeader:       "Nobody leads",
	NotReady:       "The node is starting or has stopped",
	HandingOver:    "The leadership is being handed over",
	OutcomeUnknown: "It is not known whether the request was carried out",
}

func refuse(w http.ResponseWriter, r refusal) {
	w.Header().Set(RefusedHeader, string(r.reason))
	w.Header().Set("Retry-After", retryAfter)
	answer(w, http.StatusServiceUnavailable, r)
}

func answer(w http.ResponseWriter, status int, r refusal) {
	if r.leader.URL != "" {
		w.Header().Set(LeaderHeader, r.leader.URL)
	}
	problem.Send(w, status, Problem{Type: "urn:goverse:problem:" + string(r.reason), Title: titles[r.reason],
		Status: status, Detail: r.detail, Reason: r.reason, Leader: r.leader.URL})
}
