package leaderonly

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/leaderelection"
)

// Leadership decides which process may answer a request. [Cluster], [Election] and [Elector] return
// implementations. All methods are safe for concurrent use.
type Leadership interface {
	// AsLeader runs fn if this process leads at this instant, as work that a leader that gives way waits for. If
	// fn did not run, the error matches leaderelection.ErrNotLeader, ErrNotStarted or ErrStopped; otherwise it is fn's.
	// t is the current term's.
	AsLeader(ctx context.Context, fn func(ctx context.Context, t Tenure) error) error
	// Leader returns the leader as far as this process knows. It does not block or use the network.
	Leader() Leader
	// Next reports whether this process is the next to lead, as far as it knows. It does not block.
	Next() bool
	// Await blocks until done returns true, ctx ends, or this process no longer follows the leader. It calls done
	// again whenever the results of the other methods may have changed. The error is nil, ctx's cause,
	// ErrStopped, ErrNotStarted, or one that reports that this process no longer follows the leader.
	Await(ctx context.Context, done func() bool) error
}

// Leader is a process's view of the leader. The zero Leader means that there is none, or that the process is cut
// off.
type Leader struct {
	// Name is the leader's address, or CandidateID.
	Name string
	// URL is the base URL of its HTTP server, as scheme://host:port; "" if unknown.
	URL string
	// Foreign is set if the leader is no node and answers no requests: a process of package leaderelection alone, or an
	// outside candidate. Then no process answers.
	Foreign bool
	// Token is the token of its term; 0 if unknown here.
	Token int64
	// Own reports whether this process leads, is about to lead, or gives way and finishes the work of its term.
	Own bool
	// Leads reports whether this process leads at this instant.
	Leads bool
}

// Tenure is the term in which a request is handled.
type Tenure struct {
	// Token is the term's fencing token.
	Token int64
	// Term is nil with an elector, which has no terms.
	Term leaderelection.Term
}

// sameTerm reports whether both are the same leader, in the same phase of the same term.
func (l Leader) sameTerm(other Leader) bool {
	return l.Name == other.Name && l.Token == other.Token && l.Own == other.Own && l.Leads == other.Leads
}

type tenureKey struct{}

// TermFrom returns the term that a handler's context belongs to; write with its Txn. It reports false with an
// elector, and for contexts that do not come from this package.
func TermFrom(ctx context.Context) (leaderelection.Term, bool) {
	t, _ := ctx.Value(tenureKey{}).(Tenure)
	return t.Term, t.Term != nil
}

// TokenFrom returns the fencing token of the term that a handler's context belongs to. Tokens are above 0; it
// returns 0 if the context belongs to no term.
func TokenFrom(ctx context.Context) int64 {
	t, _ := ctx.Value(tenureKey{}).(Tenure)
	return t.Token
}

// Cluster returns the leadership of the cluster itself. The leader's URL is its Config.HTTPAddress.
func Cluster(c *cluster.Cluster) Leadership { return Election(c, ownElection{c}) }

// ownElection is the cluster's own election in the form of a named one.
type ownElection struct{ *cluster.Cluster }

// Queue returns the addresses of the candidates; nil while this node has no valid session.
func (e ownElection) Queue() []string {
	if st := e.Status(); st.SessionValid {
		return st.Queue
	}
	return nil
}

func (e ownElection) Watch(ctx context.Context) (<-chan leaderelection.Leader, error) {
	return e.WatchLeader(ctx)
}

// leaderWithURL returns the leader and its URL. A leader that has just left may no longer be a member when its URL is
// looked up. By then another node leads, or none does.
func leaderWithURL(leader func() leaderelection.Leader,
	url func(leaderelection.Leader) string) (leaderelection.Leader, string) {
	known := leader()
	for {
		at := url(known)
		if at != "" {
			return known, at
		}
		now := leader()
		if now == known {
			return known, ""
		}
		known = now
	}
}

// place returns the place of an address in the queue, counted from 0, or -1.
func place(queue []string, address string) int { return slices.Index(queue, address) }

func urlOf(c *cluster.Cluster, l leaderelection.Leader) string {
	m, ok := c.Member(l.Address)
	if !ok || !l.Member {
		return ""
	}
	return URL(m.HTTPAddress)
}

// isForeign reports whether l is no node.
func isForeign(c *cluster.Cluster, l leaderelection.Leader) bool {
	m, ok := c.Member(l.Address)
	return !l.Member || ok && m.ElectionOnly
}

// Named is a named election: a *cluster.Candidate, or a *cluster.Election of a node that only observes. Those of
// package leaderelection/postgres are others.
type Named interface {
	Leader() leaderelection.Leader
	Queue() []string
	Watch(ctx context.Context) (<-chan leaderelection.Leader, error)
}

// candidate has the methods that *cluster.Candidate adds to Named.
type candidate interface {
	IsLeader() bool
	AsLeader(ctx context.Context, fn func(ctx context.Context, t leaderelection.Term) error) error
}

// Election returns the leadership of a named election of c. With a handle that only observes, this node answers
// no request itself.
func Election(c *cluster.Cluster, e Named) Leadership {
	l := electionLeadership{e: e, self: func() string { return c.Node().AdvertiseAddress() },
		url:     func(known leaderelection.Leader) string { return urlOf(c, known) },
		foreign: func(known leaderelection.Leader) bool { return isForeign(c, known) }}
	l.candidate, _ = e.(candidate)
	return l
}

// NamedElection returns the leadership of an election without a cluster, such as one of package
// leaderelection/postgres. self is this process's address in the election, which no other process may share: the Owner
// of its session. url returns the address at which a candidate serves HTTP, as host:port or as a URL; "" if unknown.
func NamedElection(e Named, self string, url func(address string) string) Leadership {
	l := electionLeadership{e: e, self: func() string { return self },
		url:     func(known leaderelection.Leader) string { return URL(url(known.Address)) },
		foreign: func(leaderelection.Leader) bool { return false }}
	l.candidate, _ = e.(candidate)
	return l
}

type electionLeadership struct {
	e         Named
	candidate candidate // nil if it only observes
	self      func() string
	url       func(leaderelection.Leader) string
	foreign   func(leaderelection.Leader) bool
}

func (l electionLeadership) AsLeader(ctx context.Context, fn func(context.Context, Tenure) error) error {
	if l.candidate == nil {
		return leaderelection.ErrNotLeader
	}
	return l.candidate.AsLeader(ctx, func(ctx context.Context, t leaderelection.Term) error {
		return fn(ctx, Tenure{Token: t.Token(), Term: t})
	})
}

func (l electionLeadership) Leader() Leader {
	known, url := leaderWithURL(l.e.Leader, l.url)
	if known.Address == "" {
		// This process's key exists for a moment before the term, and after it.
		return Leader{Own: place(l.e.Queue(), l.self()) == 0}
	}
	own := known.Member && known.Address == l.self()
	return Leader{Name: known.Address, URL: url, Foreign: l.foreign(known), Token: known.Token, Own: own,
		Leads: own && l.candidate != nil && l.candidate.IsLeader()}
}

func (l electionLeadership) Next() bool {
	return l.candidate != nil && place(l.e.Queue(), l.self()) == 1
}

func (l electionLeadership) Await(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := l.e.Watch(ctx)
	if err != nil {
		return err
	}
	return awaitChange(ctx, changes, nil, done)
}

// pollEvery is the interval at which a waiting request checks again if nothing signals changes.
const pollEvery = 10 * time.Millisecond

// Elector returns the leadership of an elector with self as its CandidateID. url returns the address at which a
// candidate serves HTTP, as host:port or as a URL; "" if unknown.
func Elector(e *elector.Elector, self string, url func(candidateID string) string) Leadership {
	return electorLeadership{e: e, self: self, url: url}
}

type electorLeadership struct {
	e    *elector.Elector
	self string
	url  func(string) string
}

func (l electorLeadership) AsLeader(ctx context.Context, fn func(context.Context, Tenure) error) error {
	return l.e.AsLeader(ctx, func(ctx context.Context, token int64) error { return fn(ctx, Tenure{Token: token}) })
}

func (l electorLeadership) Leader() Leader {
	if token := l.e.Token(); token > 0 {
		return Leader{Name: l.self, URL: URL(l.url(l.self)), Token: token, Own: true, Leads: true}
	}
	name := l.e.Leader()
	if name == "" {
		return Leader{}
	}
	return Leader{Name: name, URL: URL(l.url(name)), Own: name == l.self}
}

// Next returns false: any candidate may write first and so become the leader.
func (l electorLeadership) Next() bool { return false }

func (l electorLeadership) Await(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	return awaitChange(ctx, nil, tick.C, done)
}

var errWatchEnded = errors.New("this process follows the leader no longer")

func awaitChange(ctx context.Context, changes <-chan leaderelection.Leader, tick <-chan time.Time,
	done func() bool) error {
	for !done() {
		select {
		case _, open := <-changes:
			if !open && ctx.Err() == nil {
				return errWatchEnded
			}
		case <-tick:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
