package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/once"
)

// Page has the fields common to all lists that are read from etcd.
type Page struct {
	// ReadAt is the time of the read from etcd, by this node's clock. An answer serves further requests for a second.
	ReadAt time.Time `json:"read_at"`
	// Truncated reports whether there may be more behind the last item; request it with Next, unchanged, as
	// ?after=. A list that would take longer than a time-out is cut short: it has fewer items than requested, or
	// none, and is continued in the same way.
	Truncated bool   `json:"truncated"`
	Next      string `json:"next,omitempty"`
}

// Elections is the body of /cluster/elections: the named elections with candidates, in the whole cluster.
type Elections struct {
	Page
	Elections []Election `json:"elections"` // in the order of their keys in etcd
}

// Election is one named election. Bytes of a name that are not UTF-8 are shown as U+FFFD, as in the other lists.
type Election struct {
	Name       string      `json:"name"`
	LeaderID   string      `json:"leader_id"`
	Token      int64       `json:"token"`
	Length     int         `json:"length"`     // number of candidates, including the leader
	Candidates []Candidate `json:"candidates"` // the leader first; at most 20
}

// Candidate is one candidate in an election.
type Candidate struct {
	Address  string `json:"address"`
	Priority int    `json:"priority"`
	Member   bool   `json:"member"` // false for an outside candidate
}

// Locks is the body of /cluster/locks: the locks that are held or waited for, in the whole cluster.
type Locks struct {
	Page
	Locks []Lock `json:"locks"` // in the order of their keys in etcd
}

// Lock is one lock. It has no time of acquisition, because etcd does not keep it.
type Lock struct {
	Name string `json:"name"`
	// Mode is exclusive, or shared for a lock that several may hold together.
	Mode    string       `json:"mode"`
	Holders []LockHolder `json:"holders"` // the first one first; at most 20
	Length  int          `json:"length"`  // number of holders and waiting callers
}

// Values of Lock.Mode.
const (
	LockExclusive = "exclusive"
	LockShared    = "shared"
)

// LockHolder is one holder of a lock.
type LockHolder struct {
	Owner string `json:"owner"` // advertise address of a node, or the name that another process gave itself
	Token int64  `json:"token"` // fencing token of the grant
}

// Effects is the body of /cluster/effects: the effects that run at most once, in the whole cluster; with
// ?unknown=true, only those with an unknown outcome.
type Effects struct {
	Page
	Effects []Effect `json:"effects"` // in the order of their keys in etcd
}

// Effect is one effect, without the value that it returned.
type Effect struct {
	Name    string     `json:"name"`
	State   once.State `json:"state"` // running, unknown, done, failed or unreadable
	Attempt int        `json:"attempt"`
	Token   int64      `json:"token"` // of that attempt
	By      string     `json:"by"`    // the node that made it
	// At is the time of the state's last change, by the clock of its writer.
	At          *time.Time `json:"at,omitempty"`
	Error       string     `json:"error,omitempty"`
	ResolvedBy  string     `json:"resolved_by,omitempty"`
	ResultBytes int        `json:"result_bytes"`
	// ResultDropped reports whether the result was too long to store.
	ResultDropped bool `json:"result_dropped,omitempty"`
}

func (a *api) serveElections(w http.ResponseWriter, r *http.Request) {
	var q listQuery
	if !readListQuery(w, r, &q, nil) {
		return
	}
	source, ok := runningSource[ElectionSource](a, w, "elections")
	if !ok {
		return
	}
	a.answerList(w, r, "elections", q, func(ctx context.Context) (any, error) {
		found, more, err := source.ListElections(ctx, leaderelection.Query{After: q.after, Limit: q.limit,
			Candidates: maxNamed})
		page, err := newPage(found, more, err, func(s leaderelection.Standing) string { return s.Name })
		body := Elections{Page: page,
			Elections: []Election{}}
		for _, s := range found {
			e := Election{Name: s.Name, LeaderID: s.Leader.Address, Token: s.Leader.Token, Length: s.Length}
			for _, x := range s.Candidates {
				e.Candidates = append(e.Candidates, Candidate(x))
			}
			body.Elections = append(body.Elections, e)
		}
		return body, err
	})
}

func (a *api) serveLocks(w http.ResponseWriter, r *http.Request) {
	var q listQuery
	if !readListQuery(w, r, &q, nil) {
		return
	}
	source, ok := runningSource[LockSource](a, w, "locks")
	if !ok {
		return
	}
	a.answerList(w, r, "locks", q, func(ctx context.Context) (any, error) {
		found, more, err := source.ListLocks(ctx, lock.Query{After: q.after, Limit: q.limit, Holders: maxNamed})
		page, err := newPage(found, more, err, func(s lock.Standing) string { return s.Name })
		body := Locks{Page: page, Locks: []Lock{}}
		for _, s := range found {
			l := Lock{Name: s.Name, Mode: LockExclusive, Length: s.Length}
			if s.Shared {
				l.Mode = LockShared
			}
			for _, h := range s.Holders {
				l.Holders = append(l.Holders, LockHolder(h))
			}
			body.Locks = append(body.Locks, l)
		}
		return body, err
	})
}

func (a *api) serveEffects(w http.ResponseWriter, r *http.Request) {
	var q listQuery
	if !readListQuery(w, r, &q, map[string]queryParameter{"unknown": func(value string) (err error) {
		if q.unknown, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("unknown=%q: give true or false", value)
		}
		return nil
	}}) {
		return
	}
	a.serveList(w, r, "effects", q, func(ctx context.Context, c *cluster.Cluster) (any, error) {
		found, more, err := c.Effects().List(ctx, once.Query{After: q.after, Limit: q.limit, Unknown: q.unknown})
		page, err := newPage(found, more, err, func(s once.Standing) string { return s.Name })
		body := Effects{Page: page, Effects: []Effect{}}
		for _, s := range found {
			body.Effects = append(body.Effects, newEffect(s))
		}
		return body, err
	})
}

func newEffect(s once.Standing) Effect {
	return Effect{Name: s.Name, State: s.State, Attempt: s.Attempt, Token: s.Token, By: s.By, At: timeOrNil(s.At),
		Error: s.Error, ResolvedBy: s.Resolved, ResultBytes: max(len(s.Value), s.Dropped),
		ResultDropped: s.Dropped > 0}
}

// serveList answers with the result of read in the cluster, or with one from the last second.
func (a *api) serveList(w http.ResponseWriter, r *http.Request, what string, q listQuery,
	read func(ctx context.Context, c *cluster.Cluster) (any, error)) {
	if c := a.runningCluster(w, what); c != nil {
		a.answerList(w, r, what, q, func(ctx context.Context) (any, error) { return read(ctx, c) })
	}
}

// answerList answers with the result of read, or with one from the last second.
func (a *api) answerList(w http.ResponseWriter, r *http.Request, what string, q listQuery,
	read func(ctx context.Context) (any, error)) {
	body, err := a.lists.get(r.Context(), q.cacheKey(what), a.opts.LeaderTimeout, read)
	if err != nil {
		a.writeReadError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, body)
}

// newPage describes a list. One that was cut short by its time-out continues after the last item read.
func newPage[T any](found []T, more bool, err error, name func(T) string) (Page, error) {
	p := Page{ReadAt: time.Now().UTC(), Truncated: more}
	unfinished, cut := errors.AsType[*cluster.UnfinishedError](err)
	switch {
	case cut:
		p.Next = afterParam(unfinished.After)
	case err != nil:
		return Page{}, err
	case more:
		p.Next = afterParam(name(found[len(found)-1]))
	}
	return p, nil
}
