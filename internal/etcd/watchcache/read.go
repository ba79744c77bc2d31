package watchcache

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/hedge"
)

const (
	// leastPatience is the shortest time after which an endpoint counts as slow, and slowdown that time in multiples of
	// the time that the last read of the whole range took.
	leastPatience, slowdown = 250 * time.Millisecond, 5
	// tookCounts is the time for which it counts how long a read took. That of a busy start says nothing about later.
	tookCounts = time.Minute
	// maxCopies limits how often one read is sent, because many nodes lose their watches together, and an etcd that is
	// slow for that reason must not be asked much more.
	maxCopies = 3
	// shortPatience and moreCopies take the places of leastPatience and maxCopies for urgent requests, in clusters of
	// fewMembers at most: in larger ones many nodes send them together.
	shortPatience, moreCopies, fewMembers = 50 * time.Millisecond, 5, 100
)

// urgency determines how soon a request of the mirror is sent to another endpoint.
type urgency bool

// A request is urgent if another node has named a change that the watch does not show. Mostly that is the removal of a
// member whose host is gone, and perhaps with it the endpoint of the watch; the shards of that member wait for it.
const (
	calm   urgency = false
	urgent urgency = true
)

// hurries reports whether a request with that urgency is sent to another endpoint sooner.
func (m *Mirror) hurries(u urgency) bool {
	s := m.Snapshot()
	return u == urgent && s != nil && len(s.Members) <= fewMembers
}

// patience returns the time that etcd has to answer a request of the mirror before another endpoint is tried. A request
// that may only take limit in all is not tried elsewhere unless there is time for it.
func (m *Mirror) patience(u urgency, limit time.Duration) time.Duration {
	least, most := leastPatience, limit
	if m.hurries(u) {
		least, most = shortPatience, leastPatience
	}
	p := least
	if last := m.lastRead.Load(); last != nil && time.Since(last.answered) < tookCounts {
		p = min(max(p, slowdown*last.answered.Sub(last.sent)), most) // it may have waited for an election
	}
	if p > limit/4 {
		return limit
	}
	return p
}

// readTimes are the times of one read of the whole range.
type readTimes struct{ sent, answered time.Time }

// read reads the range, linearizably. It sends the read again, to another endpoint, if it is not answered soon: the
// endpoint may be on a host without power, as the one that the watch was at. A member of etcd that is cut off from the
// others refuses, with rpctypes.ErrNoLeader.
func (m *Mirror) read(ctx context.Context, u urgency, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), m.cfg.RequestTimeout)
	defer cancel()
	p := hedge.Policy{First: m.patience(u, m.cfg.RequestTimeout), Last: m.cfg.RequestTimeout, Most: maxCopies}
	switch {
	case p.First == m.cfg.RequestTimeout:
		p.Most = 1
	case m.hurries(u):
		p.Most = moreCopies
	}
	return hedge.Do(ctx, p, func(ctx context.Context) (*clientv3.GetResponse, error) {
		began := time.Now()
		resp, err := getRange(ctx, m.cfg.Client, m.cfg.Keys, opts...)
		if err == nil && len(opts) == 0 {
			m.lastRead.Store(&readTimes{began, time.Now()})
		}
		return resp, err
	})
}
