package httpapi

import (
	"errors"
	"net/http"
	"slices"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/internal/problem"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// problemTypes is the address of the documentation of problem types; each is an anchor there.
const problemTypes = "https://github.com/goverse/goverse/blob/main/docs/reference/http.md#"

// problemKind is a type of problem.
type problemKind struct {
	name, title string
	status      int
	retry       bool // a retry may succeed: the response has Retry-After
}

// Kinds of problems. Errors of no kind are about:blank and say no more than their status.
var (
	notRunningKind = problemKind{"not-running", "The node is no part of its cluster", http.StatusServiceUnavailable, true}
	noLeaderKind   = problemKind{"no-leader", "No leader", http.StatusServiceUnavailable, true}
	noShardMapKind = problemKind{"no-shard-map", "There is no shard map", http.StatusServiceUnavailable, true}
	etcdFailedKind = problemKind{"etcd", "etcd did not do what was asked", http.StatusServiceUnavailable, true}
	pgFailedKind   = problemKind{"postgresql", "PostgreSQL did not do what was asked", http.StatusServiceUnavailable,
		true}
	busyKind = problemKind{"busy", "Too many requests at a time", http.StatusServiceUnavailable, true}

	shardingOffKind = problemKind{"sharding-off", "This node works without shards", http.StatusNotFound, false}
	notShownKind    = problemKind{"not-shown", "This program shows nothing of it", http.StatusNotFound, false}
	unknownKind     = problemKind{"unknown", "There is no such thing in the cluster", http.StatusNotFound, false}

	adminOffKind      = problemKind{"admin-off", "Admin calls are off", http.StatusForbidden, false}
	forbiddenKind     = problemKind{"forbidden", "These credentials may not do this", http.StatusForbidden, false}
	crossSiteKind     = problemKind{"cross-site", "The request comes from another site", http.StatusForbidden, false}
	tooManyFailedKind = problemKind{"too-many-failures", "Too many failed authentications", http.StatusTooManyRequests,
		false}
	notDoneKind         = problemKind{"not-done", "It was not done, or not confirmed", http.StatusGatewayTimeout, false}
	refusedKind         = problemKind{"refused", "The cluster is not in a state for it", http.StatusConflict, false}
	unauthenticatedKind = problemKind{"unauthenticated", "Credentials are required", http.StatusUnauthorized, false}
)

// problemKinds lists all of them; docs/reference/http.md and the OpenAPI document describe each.
var problemKinds = [...]problemKind{notRunningKind, noLeaderKind, noShardMapKind, etcdFailedKind, pgFailedKind,
	busyKind, shardingOffKind, notShownKind, unknownKind, adminOffKind,
	forbiddenKind, crossSiteKind, tooManyFailedKind, notDoneKind, refusedKind, unauthenticatedKind}

// errStarting is the error of a node that is not part of its cluster yet.
var errStarting = errors.New("this node is starting")

// errorKinds assigns the cluster's errors to kinds of problems.
var errorKinds = []struct {
	kind problemKind
	errs []error
}{
	{notRunningKind, []error{errStarting, cluster.ErrNotStarted, cluster.ErrStopped}},
	{unknownKind, []error{cluster.ErrUnknownNode, leaderelection.ErrNotMember, once.ErrNoMark, processor.ErrUnknown,
		processor.ErrNotParked}},
	{notDoneKind, []error{leaderelection.ErrNotMoved, cluster.ErrNoAnswer, cluster.ErrNotEmpty,
		processor.ErrNotAcknowledged}},
	{refusedKind, []error{leaderelection.ErrNotCandidate, leaderelection.ErrOutsider, leaderelection.ErrFallback,
		leaderelection.ErrPreferred,
		cluster.ErrDrainRefused, cluster.ErrMemberGone, cluster.ErrUndone, once.ErrNotUnknown,
		processor.ErrRetryFailed, processor.ErrResumed}},
	{notShownKind, []error{errNoCluster}},
	{noLeaderKind, []error{leaderelection.ErrNoLeader}},
	{noShardMapKind, []error{cluster.ErrNoShardMap}},
	{busyKind, []error{errReadLimit}},
}

// problemKindOf returns the kind of an error. An unknown error is etcd's.
func problemKindOf(err error) problemKind {
	for _, k := range errorKinds {
		if slices.ContainsFunc(k.errs, func(target error) bool { return errors.Is(err, target) }) {
			return k.kind
		}
	}
	return etcdFailedKind
}

// writeProblem answers with a problem of that kind; detail is one line.
func writeProblem(w http.ResponseWriter, k problemKind, detail string) {
	if k.retry {
		w.Header().Set("Retry-After", retryAfter)
	}
	problem.Write(w, problem.Problem{Type: problemTypes + k.name, Title: k.title, Status: k.status, Detail: detail})
}

// writeErrorProblem answers with the problem for an error.
func writeErrorProblem(w http.ResponseWriter, err error) {
	if errors.Is(err, leaderelection.ErrBadName) || errors.Is(err, once.ErrValueTooLong) ||
		errors.Is(err, processor.ErrBadPosition) {
		writePlainProblem(w, http.StatusBadRequest, logtext.OneLine(err))
		return
	}
	writeProblem(w, problemKindOf(err), logtext.OneLine(err))
}

// writeReadError answers with the problem for an error of a request to the store. An unknown error is that of the
// store.
func (a *api) writeReadError(w http.ResponseWriter, err error) {
	if problemKindOf(err) == etcdFailedKind && storeOf(a.source) == StorePostgreSQL {
		writeProblem(w, pgFailedKind, logtext.OneLine(err))
		return
	}
	writeErrorProblem(w, err)
}

// writePlainProblem answers with a problem that says no more than its status.
func writePlainProblem(w http.ResponseWriter, code int, detail string) {
	problem.Write(w, problem.Problem{Status: code, Detail: detail})
}

// writeUnavailable answers with 503 for something that will be there later.
func writeUnavailable(w http.ResponseWriter, err error) {
	k := problemKindOf(err)
	k.status, k.retry = http.StatusServiceUnavailable, true
	writeProblem(w, k, logtext.OneLine(err))
}
