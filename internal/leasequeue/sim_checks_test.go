package leasequeue

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing/synctest"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/internal/test/invariant"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

// checks holds the promises and the observations. Out-of-band changes are exempt: entries with a deleted key,
// and all entries on a revoked lease.
type checks struct {
	w *world

	mu        sync.Mutex
	sequence  int
	processes map[*modeletcd.Conn]*process
	tainted   map[string]bool                      // entries, and leases, by name
	tokens    map[string]*invariant.Tokens[*Grant] // by queue
	given     map[*Entry]int                       // released entries, and the time
	asked     map[*Entry]int                       // requested entries, and the time
	first     map[string][]*Grant
	standing  map[string]int64 // keys, and the time of their creation
}

func (c *checks) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequence++
	return c.sequence
}

func (c *checks) asks(x *Entry, at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[x] = at
}

func (c *checks) gives(x *Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequence++
	c.given[x] = c.sequence
}

func (c *checks) taint(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tainted[what] = true
}

// exempt reports whether the entry was changed out of band. The caller holds c.mu.
func (c *checks) exempt(x *Entry) bool {
	return c.tainted[placeName(x.key, x.Token())] || c.tainted[leaseName(int64(x.run.session.ID()))]
}

func (c *checks) began(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.processes == nil {
		c.processes = map[*modeletcd.Conn]*process{}
	}
	c.processes[p.conn] = p
}

// ended records that the process is being stopped.
func (c *checks) ended(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.processes, p.conn)
}

// granted records that a caller continues because the entry is granted.
func (c *checks) granted(x *Grant) {
	stands := c.w.Etcd.Keys(x.queue)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.Counts.Count("first")
	if x.Shared {
		c.w.Counts.Count("shared")
	}
	token := x.Token()
	c.w.Log.Addf("", "%s is first, token %d, valid %v", x.key, token, x.Valid())
	if c.exempt(x.Entry) {
		return
	}
	t := c.tokens[x.queue]
	if t == nil {
		t = &invariant.Tokens[*Grant]{}
		c.tokens[x.queue] = t
	}
	switch greatest, holder := t.Greatest(x.Shared); {
	case token == 0:
		c.w.Fail("%s is first without a token", x.key)
	case token <= greatest:
		c.w.Fail("%s has token %d, after %s with %d", x.key, token, holder.key, greatest)
	}
	t.Add(token, x.Shared, x)
	if !x.Valid() {
		return
	}
	has := false
	for _, kv := range stands {
		switch {
		case string(kv.Key) == x.key:
			has = kv.CreateRevision == token
		case kv.CreateRevision < token && !(x.Shared && strings.HasSuffix(string(kv.Key), "-shared")):
			c.w.Fail("%s is first with token %d, though %s was created at %d", x.key, token, kv.Key, kv.CreateRevision)
		}
	}
	if !has {
		c.w.Fail("%s is first with token %d, and its key is not there", x.key, token)
	}
	for _, y := range c.first[x.queue] {
		if !(x.Shared && y.Shared) && y.Valid() && !c.exempt(y.Entry) {
			c.w.Fail("%s is first with token %d beside %s with %d", x.key, token, y.key, y.Token())
		}
	}
	c.first[x.queue] = append(c.first[x.queue], x)
}

// released records that no caller acts on the entry any more.
func (c *checks) released(x *Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.Log.Addf("", "%s is given up", x.key)
	for i, y := range c.first[x.queue] {
		if x == y {
			c.first[x.queue] = append(c.first[x.queue][:i:i], c.first[x.queue][i+1:]...)
			return
		}
	}
}

// left checks that the key is gone, as was reported.
func (c *checks) left(x *Entry) {
	stands := c.w.Etcd.Keys(x.key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(stands) > 0 && string(stands[0].Key) == x.key && stands[0].CreateRevision == x.Token() &&
		x.run.ctx.Err() == nil && !c.exempt(x) {
		c.w.Fail("%s was left, and its key is there", x.key)
	}
}

// changed checks every change in etcd, at the instant of the change.
func (c *checks) changed(now, before *mvccpb.KeyValue, by *modeletcd.Conn) {
	kv := now
	if now == nil {
		kv = before
	}
	key := string(kv.Key)
	c.mu.Lock()
	defer c.mu.Unlock()
	name := "the outside"
	if by != nil {
		name = by.Name
	}
	switch {
	case now == nil:
		delete(c.standing, key)
		c.w.Log.Addf("", "etcd: %s deletes %s, created at %d", name, key, before.CreateRevision)
	default:
		c.standing[key] = now.CreateRevision
		c.w.Log.Addf("", "etcd: %s puts %s = %s at %d, version %d", name, key, now.Value, now.ModRevision, now.Version)
	}
	if _, queued := c.w.queueOf(key); !queued || strings.HasSuffix(key, "/stray") {
		return
	}
	x, barred, known := c.entry(kv.Lease, key)
	switch {
	case !known:
	case now != nil && before != nil:
		c.w.Fail("%s was put twice", key)
	case now != nil && x == nil && barred:
		c.w.Counts.Count("put late after a denial") // the next tick deletes it again
	case now != nil && x == nil:
		c.w.Fail("%s was put late: no entry waits for it", key)
	case now != nil:
		c.created(x)
	case x != nil && x.Token() == before.CreateRevision && !c.exempt(x) && x.state.Load().KeyExpected():
		c.w.Fail("%s was deleted while it stands", key)
	}
}

// entry returns the entry with that key on that lease, and whether the key is barred. known is false if the
// lease is not that of a process's present session.
func (c *checks) entry(lease int64, key string) (x *Entry, barred, known bool) {
	for _, p := range c.processes {
		p.engine.mu.Lock()
		r := p.engine.run
		p.engine.mu.Unlock()
		if r == nil || int64(r.session.ID()) != lease || r.ctx.Err() != nil {
			continue
		}
		p.engine.mu.Lock()
		defer p.engine.mu.Unlock()
		return r.entries[key], r.keyring.barred[key] > 0, true
	}
	return nil, false, false
}

// created checks that no entry of the same process still stands that was released before this one was
// requested, unless etcd denies the release.
func (c *checks) created(x *Entry) {
	x.q.e.mu.Lock()
	entries := slices.Collect(maps.Values(x.run.entries))
	x.q.e.mu.Unlock()
	for _, y := range entries {
		if y == x || y.queue != x.queue || c.asked[x] == 0 || c.given[y] == 0 || c.given[y] > c.asked[x] {
			continue
		}
		if y.Token() != 0 && c.standing[y.key] == y.Token() && !c.exempt(y) && !y.state.Load().DeletionAnswered() {
			c.w.Fail("%s was put before %s was deleted, which was given up before", x.key, y.key)
		}
	}
}

// quiet checks the state that remains when all entries are released.
func (c *checks) quiet() {
	for _, kv := range c.w.Etcd.Keys(c.w.keys.Prefix()) {
		if _, queued := c.w.queueOf(string(kv.Key)); queued {
			c.w.Fail("%s is left", kv.Key)
		}
	}
	for _, h := range c.w.hosts {
		p := h.present()
		for _, f := range p.heard {
			if q := f.Queue(); !q.Known() || len(q.Entries())+len(f.Requests()) > 0 {
				c.w.Fail("%s knows of %v and %v in queues that are empty", h.name, q.Entries(), f.Requests())
			}
		}
		p.engine.mu.Lock()
		r := p.engine.run
		p.engine.mu.Unlock()
		if r == nil {
			c.w.Fail("%s has no session", h.name)
			continue
		}
		synctest.Wait() // the lanes are idle
		open := 0       // keys that a lane will learn about with its next batch
		for _, l := range r.lanes {
			open += len(l.barred)
		}
		p.engine.mu.Lock()
		if len(r.entries)+max(0, len(r.keyring.barred)-open)+len(r.stuck)+
			r.outbox.inFlight+len(r.outbox.deletions)+len(r.outbox.creations)+len(r.outbox.lines) > 0 {
			c.w.Fail("%s still has %d entries, %d keys barred, %d to try again, %d operations under way, %d lines", h.name,
				len(r.entries), len(r.keyring.barred), len(r.stuck), r.outbox.inFlight, len(r.outbox.lines))
		}
		p.engine.mu.Unlock()
	}
}
