package simulation

import (
	"errors"

	"github.com/goverse/goverse/internal/candidacy"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/txn"
)

// campaign stands for one call of concurrency.Election.Campaign on the client that
// round.derived makes: create the key or find it, look who queues before it, wait
// until that one is gone, look again. It is etcd's recipe, with its habits: cancelled
// while it waits it deletes its key, after another error it leaves it behind.
type campaign struct {
	r         *round
	joined    int64
	cancelled bool
	resigning bool
	waiting   string // the key before; "": it does not wait
	from      int64
	follower  candidacy.Follower
	ended     bool
	after     []func() // who waits for the end
}

var errCancelled = errors.New("cancelled")

// join is round.join.
func (r *round) join() {
	c := &campaign{r: r}
	e := r.e
	r.active = c
	if e.round == r {
		e.part = e.part.CampaignBegan()
	}
	if r.s.lost != "" {
		c.cancelled = true
		e.p.soon(func() { c.end(errCancelled) })
		return
	}
	p := e.p
	known := p.mirror.known
	p.change(toCampaign, requestTimeout, enqueue(p.w.keys, r.s.lease, p.host.address), func(a answer, err error) {
		if err == nil {
			p.mirror.saw(a.revision, known)
		}
		switch {
		case c.ended:
		case err != nil:
			c.end(err)
		case a.held:
			c.found(a.revision)
		case string(a.found[0].Value) == p.host.address:
			c.found(a.found[0].CreateRevision)
		default:
			c.proclaim(a.found[0].CreateRevision)
		}
	})
}

// enqueue is what Campaign sends first.
func enqueue(keys state.Keys, lease int64, address string) txn.Txn {
	key := keys.Candidate(lease)
	return txn.Txn{If: []txn.Guard{{Key: key}},
		Then: []txn.Op{{Kind: txn.Put, Key: key, Value: address, Lease: lease}},
		Else: []txn.Op{{Kind: txn.Get, Key: key}}}
}

// proclaim puts the value right that somebody else wrote.
func (c *campaign) proclaim(revision int64) {
	p := c.r.e.p
	key := p.w.keys.Candidate(c.r.s.lease)
	c.noted(revision)
	p.change(toChange, requestTimeout, txn.Txn{If: []txn.Guard{{Key: key, Is: revision}},
		Then: []txn.Op{{Kind: txn.Put, Key: key, Value: p.host.address, Lease: c.r.s.lease}}}, func(a answer, err error) {
		switch {
		case c.ended || c.resigning:
		case err != nil || !a.held:
			c.resign(errors.Join(err, errCancelled))
		default:
			c.found(revision)
		}
	})
}

// noted is round.joined.
func (c *campaign) noted(revision int64) {
	e := c.r.e
	c.joined = revision
	if c.r.active == c && e.round == c.r {
		e.part = e.part.Joined(revision)
	}
	e.poke()
}

func (c *campaign) found(revision int64) {
	c.noted(revision)
	c.lookAhead()
}

// lookAhead is a turn of waitDeletes.
func (c *campaign) lookAhead() {
	p := c.r.e.p
	var last state.KV
	p.call(toLookAhead, requestTimeout, func(e *etcd) (answer, error) {
		from, _ := e.find(p.w.keys.Queue())
		to, _ := e.find(p.w.keys.QueueEnd())
		found := state.KV{}
		for _, kv := range e.keys[from:to] {
			if kv.CreateRevision < c.joined && kv.CreateRevision > found.CreateRevision {
				found = kv
			}
		}
		last = found
		return answer{revision: e.revision}, nil
	}, func(a answer, err error) {
		switch {
		case c.ended || c.resigning:
		case err != nil:
			c.end(err)
		case last.Key == "":
			c.end(nil) // it won; the snapshot decides
		default:
			c.waiting, c.from, c.follower = last.Key, a.revision, candidacy.Follower{}
			c.published(p.mirror.snapshot)
		}
	})
}

// published is what the fed watcher waits for.
func (c *campaign) published(s *state.Snapshot) {
	if c.waiting != "" && c.follower.Gone(s, c.waiting, c.from) {
		c.waiting = ""
		c.r.e.p.soon(func() {
			if !c.ended && !c.resigning {
				c.lookAhead()
			}
		})
	}
}

// cancel ends the context of the call.
func (c *campaign) cancel() {
	if c.ended || c.cancelled {
		return
	}
	c.cancelled = true
	if c.joined == 0 {
		c.end(errCancelled) // the request under way may be carried out all the same
		return
	}
	c.resign(errCancelled)
}

// resign deletes the key, as Campaign does when it is cancelled; its outcome does not
// matter to it.
func (c *campaign) resign(err error) {
	if c.resigning {
		return
	}
	e := c.r.e
	c.waiting, c.resigning = "", true
	if e.round == c.r {
		part, ended := e.part.Leaving(c.joined, c.r.s.lost == "", e.p.host.time())
		e.part = part
		e.over(ended)
	}
	e.p.change(toLeave, requestTimeout, leave(e.p.w.keys, c.r.s.lease, c.joined), func(answer, error) { c.end(err) })
}

// end is what round.join does when the call returned.
func (c *campaign) end(err error) {
	if c.ended {
		return
	}
	c.ended = true
	e := c.r.e
	if c.cancelled {
		err = nil
	}
	if c.r.active == c {
		c.r.active = nil
		if e.round == c.r {
			failed := e.part.Failed()
			e.part = e.part.CampaignEnded(e.p.host.time(), how(err))
			e.p.w.checks.campaigned(e.p, err)
			if e.part.Failed() != failed {
				e.followed()
			}
		}
	}
	for _, f := range c.after {
		f()
	}
	e.poke()
}
