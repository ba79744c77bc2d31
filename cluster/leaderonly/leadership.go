package leaderonly

import (
	"context"
	"errors"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/cluster/elector"
)

// Leadership is what requests are decided by: [Cluster], [Election] and [Elector] make one. All methods
// are called from many goroutines at once.
type Leadership interface {
	// AsLeader runs fn if this process leads at this instant, as work that a leader which gives way
	// waits for. The error matches election.ErrNotLeader, ErrNotStarted or ErrStopped if fn did not
	// run; else it is fn's. The tenure is the present term's.
	AsLeader(ctx context.Context, fn func(ctx context.Context, t Tenure) error) error
	// Leader is the leader as far as this process knows. It does not block, and asks nobody.
	Leader() Leader
	// Next reports whether this process is the next to lead, as far as it knows. It does not block.
	Next() bool
	// Await blocks until done returns true, which is asked again whenever the answers of the others may
	// be new, or until ctx ends, or there will be no more news. The error is then ctx's cause, or
	// ErrStopped or ErrNotStarted.
	Await(ctx context.Context, done func() bool) error
}

// Leader is what a process knows of the leader. The zero Leader: nobody leads, or it cannot say.
type Leader struct {
	// Name is the leader's address, or CandidateID.
	Name string
	// URL is where it serves HTTP, as scheme://host:port; "" if that is not known.
	URL string
	// Token is of its term; 0 if that is not known here.
	Token int64
	// Own: this process leads, or is about to, or gives way and works the rest of its term off.
	Own bool
	// Leads: this process leads at this instant.
	Leads bool
}

// Tenure is the term that a request is handled in.
type Tenure struct {
	// Token is the term's fencing token.
	Token int64
	// Term is nil with an elector, which has none.
	Term election.Term
}

// same: it is the same leader, in the same term and the same part of it.
func (l Leader) same(other Leader) bool {
	return l.Name == other.Name && l.Token == other.Token && l.Own == other.Own && l.Leads == other.Leads
}

type tenureKey struct{}

// TermFrom is the term that a handler's context belongs to: write by its Txn. It is not there where
// no election of a cluster decides, but an elector; and in contexts of other origin.
func TermFrom(ctx context.Context) (election.Term, bool) {
	t, _ := ctx.Value(tenureKey{}).(Tenure)
	return t.Term, t.Term != nil
}

// TokenFrom is the fencing token of the term that a handler's context belongs to, above 0; 0: it belongs
// to none.
func TokenFrom(ctx context.Context) int64 {
	t, _ := ctx.Value(tenureKey{}).(Tenure)
	return t.Token
}

// Cluster is the leadership of the cluster itself. The leader's URL is its Config.HTTPAddress.
func Cluster(c *cluster.Cluster) Leadership { return ofCluster{c} }

type ofCluster struct{ c *cluster.Cluster }

func (l ofCluster) AsLeader(ctx context.Context, fn func(context.Context, Tenure) error) error {
	return l.c.AsLeader(ctx, func(ctx context.Context, t election.Term) error {
		return fn(ctx, Tenure{Token: t.Token(), Term: t})
	})
}

func (l ofCluster) Leader() Leader {
	known, url := reached(l.c.Leader, func(known election.Leader) string { return urlOf(l.c, known) })
	if known.Address == "" {
		// The own key stands for a moment before the term, and after it.
		st := l.c.Status()
		return Leader{Own: st.SessionValid && first(st.Queue, l.c)}
	}
	own := known.Address == l.c.Node().AdvertiseAddress()
	return Leader{Name: known.Address, URL: url, Token: known.Token, Own: own, Leads: own && l.c.IsLeader()}
}

// reached is who leads, and where. One that has just left is no member any more when its URL is asked for: then
// somebody else leads by now, or nobody does.
func reached(leader func() election.Leader, url func(election.Leader) string) (election.Leader, string) {
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

func (l ofCluster) Next() bool { return second(l.c.Status().Queue, l.c) }

func (l ofCluster) Await(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := l.c.WatchLeader(ctx)
	if err != nil {
		return err
	}
	return await(ctx, changes, nil, done)
}

// first: this node is the first in the queue.
func first(queue []string, c *cluster.Cluster) bool {
	return len(queue) > 0 && queue[0] == c.Node().AdvertiseAddress()
}

// second: this node follows the one that is first in the queue.
func second(queue []string, c *cluster.Cluster) bool {
	return len(queue) > 1 && queue[1] == c.Node().AdvertiseAddress()
}

func urlOf(c *cluster.Cluster, l election.Leader) string {
	m, ok := c.Member(l.Address)
	if !ok || !l.Member {
		return ""
	}
	return URL(m.HTTPAddress)
}

// Named is a named election: a *cluster.Candidate, or a *cluster.Election of a node that only observes.
type Named interface {
	Leader() election.Leader
	Queue() []string
	Watch(ctx context.Context) (<-chan election.Leader, error)
}

// candidate is what a *cluster.Candidate has beyond that.
type candidate interface {
	IsLeader() bool
	AsLeader(ctx context.Context, fn func(ctx context.Context, t election.Term) error) error
}

// Election is the leadership of a named election of c's. With a handle that only observes, this node
// answers nothing itself.
func Election(c *cluster.Cluster, e Named) Leadership {
	l := ofElection{c: c, e: e}
	l.candidate, _ = e.(candidate)
	return l
}

type ofElection struct {
	c         *cluster.Cluster
	e         Named
	candidate candidate // nil: it only observes
}

func (l ofElection) AsLeader(ctx context.Context, fn func(context.Context, Tenure) error) error {
	if l.candidate == nil {
		return election.ErrNotLeader
	}
	return l.candidate.AsLeader(ctx, func(ctx context.Context, t election.Term) error {
		return fn(ctx, Tenure{Token: t.Token(), Term: t})
	})
}

func (l ofElection) Leader() Leader {
	known, url := reached(l.e.Leader, func(known election.Leader) string { return urlOf(l.c, known) })
	if known.Address == "" {
		return Leader{Own: first(l.e.Queue(), l.c)}
	}
	own := known.Member && known.Address == l.c.Node().AdvertiseAddress()
	return Leader{Name: known.Address, URL: url, Token: known.Token, Own: own,
		Leads: own && l.candidate != nil && l.candidate.IsLeader()}
}

func (l ofElection) Next() bool { return l.candidate != nil && second(l.e.Queue(), l.c) }

func (l ofElection) Await(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := l.e.Watch(ctx)
	if err != nil {
		return err
	}
	return await(ctx, changes, nil, done)
}

// pollEvery is how often a request that waits looks, where nothing signals what it waits for.
const pollEvery = 10 * time.Millisecond

// Elector is the leadership of an elector, whose CandidateID is self. url is where a candidate serves
// HTTP, as host:port or as a URL; "" if that is not known.
func Elector(e *elector.Elector, self string, url func(candidateID string) string) Leadership {
	return ofElector{e: e, self: self, url: url}
}

type ofElector struct {
	e    *elector.Elector
	self string
	url  func(string) string
}

func (l ofElector) AsLeader(ctx context.Context, fn func(context.Context, Tenure) error) error {
	return l.e.AsLeader(ctx, func(ctx context.Context, token int64) error { return fn(ctx, Tenure{Token: token}) })
}

func (l ofElector) Leader() Leader {
	if token := l.e.Token(); token > 0 {
		return Leader{Name: l.self, URL: URL(l.url(l.self)), Token: token, Own: true, Leads: true}
	}
	name := l.e.Leader()
	if name == "" {
		return Leader{}
	}
	return Leader{Name: name, URL: URL(l.url(name)), Own: name == l.self}
}

// Next is false: whichever writes first leads.
func (l ofElector) Next() bool { return false }

func (l ofElector) Await(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	return await(ctx, nil, tick.C, done)
}

var errNoNews = errors.New("this process follows the leader no longer")

func await(ctx context.Context, changes <-chan election.Leader, tick <-chan time.Time, done func() bool) error {
	for !done() {
		select {
		case _, open := <-changes:
			if !open && ctx.Err() == nil {
				return errNoNews
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
