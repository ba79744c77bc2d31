package httpapi

import (
	"errors"
	"net/http"
	"slices"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/internal/problem"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// problemTypes is the address of the documentation of problem types; each is an anchor there.
const problemTypes = "https://github.com/goverse/goverse/blob/main/docs/http.md#"

// kind is a type of problem.
type kind struct {
	name, title string
	status      int
	retry       bool // a retry may succeed: the response has Retry-After
}

// Kinds of problems. Errors of no kind are about:blank and say no more than their status.
var (
	notRunningKind = kind{"not-running", "The node is no part of its cluster", http.StatusServiceUnavailable, true}
	noLeader       = kind{"no-leader", "Nobody leads", http.StatusServiceUnavailable, true}
	noShardMap     = kind{"no-shard-map", "There is no shard map", http.StatusServiceUnavailable, true}
	etcdFailed     = kind{"etcd", "etcd did not do what was asked", http.StatusServiceUnavailable, true}
	busy           = kind{"busy", "Too many requests at a time", http.StatusServiceUnavailable, true}

	shardingOff = kind{"sharding-off", "This node works without shards", http.StatusNotFound, false}
	notShown    = kind{"not-shown", "This program shows nothing of it", http.StatusNotFound, false}
	unknown     = kind{"unknown", "There is no such thing in the cluster", http.StatusNotFound, false}

	adminOff        = kind{"admin-off", "Admin calls are off", http.StatusForbidden, false}
	forbidden       = kind{"forbidden", "These credentials may not do this", http.StatusForbidden, false}
	crossSite       = kind{"cross-site", "The request comes from another site", http.StatusForbidden, false}
	tooManyFailed   = kind{"too-many-failures", "Too many failed authentications", http.StatusTooManyRequests, false}
	notDone         = kind{"not-done", "It was not done, or not in time", http.StatusGatewayTimeout, false}
	refused         = kind{"refused", "The cluster is not in a state for it", http.StatusConflict, false}
	unauthenticated = kind{"unauthenticated", "Credentials are required", http.StatusUnauthorized, false}
)

// kinds lists all of them; docs/http.md and the OpenAPI document describe each.
var kinds = [...]kind{notRunningKind, noLeader, noShardMap, etcdFailed, busy, shardingOff, notShown, unknown, adminOff,
	forbidden, crossSite, tooManyFailed, notDone, refused, unauthenticated}

// errStarting is the error of a node that is not part of its cluster yet.
var errStarting = errors.New("this node is starting")

// kindOf assigns the cluster's errors to kinds of problems.
var kindOf = []struct {
	kind kind
	errs []error
}{
	{notRunningKind, []error{errStarting, cluster.ErrNotStarted, cluster.ErrStopped}},
	{unknown, []error{cluster.ErrUnknownNode, election.ErrNotMember, once.ErrNoMark, processor.ErrUnknown}},
	{notDone, []error{election.ErrNotMoved, cluster.ErrNoAnswer, cluster.ErrNotEmpty}},
	{refused, []error{election.ErrNotCandidate, election.ErrOutsider, election.ErrFallback, election.ErrPreferred,
		cluster.ErrDrainRefused, cluster.ErrMemberGone, cluster.ErrUndone, once.ErrNotUnknown}},
	{noLeader, []error{election.ErrNoLeader}},
	{noShardMap, []error{cluster.ErrNoShardMap}},
	{busy, []error{errTooOften}},
}

// problemOf returns the kind of an error. An unknown error is etcd's.
func problemOf(err error) kind {
	for _, k := range kindOf {
		if slices.ContainsFunc(k.errs, func(target error) bool { return errors.Is(err, target) }) {
			return k.kind
		}
	}
	return etcdFailed
}

// writeProblem answers with a problem of that kind; detail is one line.
func writeProblem(w http.ResponseWriter, k kind, detail string) {
	if k.retry {
		w.Header().Set("Retry-After", retryAfter)
	}
	problem.Write(w, problem.Problem{Type: problemTypes + k.name, Title: k.title, Status: k.status, Detail: detail})
}

// fail answers with the problem for an error.
func fail(w http.ResponseWriter, err error) {
	if errors.Is(err, election.ErrBadName) || errors.Is(err, once.ErrValueTooLong) {
		writeError(w, http.StatusBadRequest, logtext.OneLine(err))
		return
	}
	writeProblem(w, problemOf(err), logtext.OneLine(err))
}

// writeError answers with a problem that says no more than its status.
func writeError(w http.ResponseWriter, code int, detail string) {
	problem.Write(w, problem.Problem{Status: code, Detail: detail})
}

// unavailable answers with 503 for something that will be there later.
func unavailable(w http.ResponseWriter, err error) {
	k := problemOf(err)
	k.status, k.retry = http.StatusServiceUnavailable, true
	writeProblem(w, k, logtext.OneLine(err))
}
