package leaderonly

import (
	"net/http"

	"github.com/goverse/goverse/cluster/internal/problem"
)

// Headers of this package.
const (
	// LeaderHeader holds the leader's URL, in a response of another node.
	LeaderHeader = "Goverse-Leader"
	// RefusedHeader holds the [Reason] for refusing a request. Nothing of the request has run.
	RefusedHeader = "Goverse-Refused"
	// RetryHeader in a request means that all nodes have refused it or could not be reached; see the package
	// comment. Any value except "" and 0 sets it.
	RetryHeader = "Goverse-Retry"
	// ForwardedHeader in a request means that another node has forwarded it; it is not forwarded again. Its value
	// is the token of the leader known to that node.
	ForwardedHeader = "Goverse-Forwarded"
)

// retryAfter is in seconds; one is the minimum of the header.
const retryAfter = "1"

// Problem is the body of this package's own responses, as defined in RFC 9457.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Reason Reason `json:"reason"`
	Leader string `json:"leader,omitempty"` // the leader's URL
}

// OutcomeUnknown is the reason given in a 502: a forwarded request may have been carried out.
const OutcomeUnknown Reason = "outcome-unknown"

var reasonTitles = map[Reason]string{
	NotLeader:      "Not the leader",
	NoLeader:       "No leader",
	NotReady:       "The node is starting or has stopped",
	HandingOver:    "The leadership is being handed over",
	OutcomeUnknown: "It is not known whether the request was carried out",
}

func writeRefusal(w http.ResponseWriter, r refusal) {
	w.Header().Set(RefusedHeader, string(r.reason))
	w.Header().Set("Retry-After", retryAfter)
	writeProblem(w, http.StatusServiceUnavailable, r)
}

func writeProblem(w http.ResponseWriter, status int, r refusal) {
	if r.leader.URL != "" {
		w.Header().Set(LeaderHeader, r.leader.URL)
	}
	problem.Send(w, status, Problem{Type: "urn:goverse:problem:" + string(r.reason), Title: reasonTitles[r.reason],
		Status: status, Detail: r.detail, Reason: r.reason, Leader: r.leader.URL})
}
