package pgnode

import (
	"maps"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/leaderelection"
)

// view is this node's view of the cluster. It is immutable.
type view struct {
	State
	at          time.Time // when the read was sent, by this node's clock
	incarnation int64     // of this node; 0 while it is not registered
	session     int64     // of that registration
	failing     bool      // the last read has failed
}

// row returns a living node by its id.
func (v *view) row(id string) (Row, bool) {
	for _, r := range v.Nodes {
		if r.ID == id {
			return r, r.Alive
		}
	}
	return Row{}, false
}

// table returns the table of the living nodes. own is this node's id and part in the election.
func (v *view) table(election, own string, part cluster.MemberState) cluster.MemberTable {
	t := cluster.MemberTable{Revision: v.Seq, Members: []cluster.MemberRow{}}
	queue := v.election(election).Queue
	for _, r := range v.Nodes {
		if !r.Alive {
			continue
		}
		row := cluster.MemberRow{Member: r.member(), State: cluster.MemberFollower, SeenSince: r.Created}
		if r.State == cluster.MemberObserver {
			row.State = cluster.MemberObserver
		}
		for i, c := range queue {
			if c.Session == r.Session {
				row.State, row.Place = cluster.MemberCandidate, i+1
				if c.Token != 0 {
					row.State = cluster.MemberLeader
				}
				break
			}
		}
		if r.ID == own {
			row.State = part
		} else if part == cluster.MemberLeader && row.State == cluster.MemberLeader {
			row.State = cluster.MemberCandidate // its term is over
		}
		t.Members = append(t.Members, row)
	}
	return t
}

func (r Row) member() cluster.Member {
	return cluster.Member{Address: r.ID, Incarnation: r.Incarnation, InstanceID: r.Instance, Hostname: r.Host,
		HTTPAddress: r.URL, Version: r.Version, Labels: maps.Clone(r.Labels), Weight: 1,
		Observer: r.State == cluster.MemberObserver, Goverse: r.Goverse}
}

// termRecord is a term of this node.
type termRecord struct {
	token    int64
	acquired time.Time
	// ended is zero while the term lasts. why is the reason for its end.
	ended time.Time
	why   leaderelection.Reason
	// by is the id of the node that led, if that is not this one, and due the time at which the end is recorded
	// unless it has been.
	by  string
	due time.Time
}

// lostSession is a session of this node that was lost.
type lostSession struct {
	id     int64
	reason string
	at     time.Time
}

// chore is a request that follows from the view. Its function in PostgreSQL does nothing if another node was faster.
type chore struct {
	kind choreKind
	row  Row        // to remove
	term termRecord // that began
}

type choreKind int

const (
	choreRemove choreKind = iota
	choreBeginTerm
	choreLeaderless
)

// degradedAfter is the time without a leader after which it is recorded.
const degradedAfter = time.Second

// maxRemovals limits the nodes that one node removes after one read, so that heartbeats go on when many are lost at
// once.
const maxRemovals = 20

// decideChores lists the requests that follow from the view. own is this node's present term, if it leads. noted is the
// token of the last term of which it is recorded that no other followed.
func decideChores(v *view, self, election string, own *termRecord, noted int64) (chores []chore) {
	for _, r := range v.Nodes {
		if !r.Alive && r.ID != self && len(chores) < maxRemovals {
			chores = append(chores, chore{kind: choreRemove, row: r})
		}
	}
	e := v.election(election)
	if own != nil && (e.Lease == nil || e.Lease.Term != own.token) {
		chores = append(chores, chore{kind: choreBeginTerm, term: *own})
	}
	if _, led := e.Leader(); led || own != nil || v.incarnation == 0 {
		return chores
	}
	var since time.Time
	last := int64(0)
	if e.Lease != nil {
		last, since = e.Lease.Term, e.Lease.Renewed
		if e.Lease.Ended != nil {
			since = *e.Lease.Ended
		}
	}
	if oldest := oldestOf(v.Nodes); since.Before(oldest) {
		since = oldest
	}
	if last != noted && v.ReadAt.Sub(since) >= degradedAfter {
		chores = append(chores, chore{kind: choreLeaderless, term: termRecord{token: last}})
	}
	return chores
}

// oldestOf returns the time at which the oldest of the nodes registered.
func oldestOf(nodes []Row) (oldest time.Time) {
	for i, r := range nodes {
		if i == 0 || r.Created.Before(oldest) {
			oldest = r.Created
		}
	}
	return oldest
}
