package simulation

import (
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

func put(key, value string, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key),
		Value: []byte(value), Lease: lease}}}
}

func remove(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
}

// out makes one out-of-band change; author is the originator of a deletion.
func (w *world) out(author by, op *pb.RequestOp) {
	w.checks.as(author)
	_, _ = w.etcd.Do(&pb.TxnRequest{Success: []*pb.RequestOp{op}}) // the lease may be gone
	w.checks.as(nobody)
}

// revoke revokes a lease out of band.
func (w *world) revoke(author by, lease int64) {
	w.checks.take(author, lease)
	w.checks.as(author)
	w.etcd.Revoke(lease)
	w.checks.as(nobody)
}

// as sets the originator of the out-of-band changes that follow.
func (c *checks) as(author by) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.author = author
}

// take records that a lease is taken from its owner.
func (c *checks) take(author by, lease int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if author == nobody {
		return
	}
	t := taken{lease: lease, at: c.w.now(), by: author}
	for _, p := range c.processes {
		if s := p.session(); s != nil && int64(s.ID()) == lease && s.Err() == nil && !p.dead.Load() {
			t.from = p
		}
	}
	c.taken = append(c.taken, t)
}

// faultBegan counts a fault.
func (c *checks) faultBegan(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Faults[n]++
}

// changeKeysOutOfBand changes or deletes a key of a host, or revokes its lease, out of band.
func changeKeysOutOfBand(w *world, h *host) {
	p := h.process
	if p == nil || p.session() == nil || w.faults.away {
		return
	}
	lease := int64(p.session().ID())
	key := pick(w, []string{w.keys.Candidate(lease), w.keys.Candidate(lease), w.keys.Node(h.address), w.keys.Acting()})
	switch w.rand.IntN(4) {
	case 0:
		w.note(h, "somebody revokes its lease %x", lease)
		w.revoke(hand, lease)
	case 1:
		kv := w.checks.key(key)
		if kv == nil || key == w.keys.Acting() {
			return
		}
		w.note(h, "somebody alters %s", key)
		if key == w.keys.Node(h.address) {
			w.checks.taint(kv.CreateRevision)
		}
		onto := int64(0)
		if w.chance(2) {
			onto = kv.Lease
		}
		w.out(hand, put(key, "somebody", onto))
	default:
		w.note(h, "somebody deletes %s", key)
		w.out(hand, remove(key))
	}
}

// changeShardsOutOfBand changes or deletes the shard map or a report out of band.
func changeShardsOutOfBand(w *world, h *host) {
	if w.faults.away {
		return
	}
	switch w.rand.IntN(8) {
	case 0, 1, 2:
		if w.checks.key(w.keys.ShardMap()) != nil {
			w.note(nil, "somebody deletes the shard map")
			w.out(hand, remove(w.keys.ShardMap()))
			w.checks.mapTaken()
		}
	case 3, 4:
		w.note(nil, "somebody writes garbage into the shard map")
		w.out(hand, put(w.keys.ShardMap(), "somebody", 0))
		w.checks.mapTaken()
		w.faults.last(w.duration(h), w.deleteMap)
	default:
		changeReportOutOfBand(w, h)
	}
}

// deleteMap deletes an unreadable shard map, as an operator would.
func (w *world) deleteMap() {
	kv := w.checks.key(w.keys.ShardMap())
	if kv == nil {
		return
	}
	if _, err := sharding.Decode(kv.Value); err == nil {
		return
	}
	w.note(nil, "somebody deletes the shard map that cannot be read")
	w.out(hand, remove(w.keys.ShardMap()))
	w.checks.mapTaken()
}

// changeReportOutOfBand deletes or overwrites a member's report of released shards.
func changeReportOutOfBand(w *world, h *host) {
	key := w.keys.Released(h.address)
	kv := w.checks.key(key)
	if kv == nil {
		return
	}
	w.checks.count(ReportTaken)
	switch w.rand.IntN(3) {
	case 0:
		w.note(h, "somebody deletes its report")
		w.out(hand, remove(key))
	case 1:
		w.note(h, "somebody writes garbage into its report")
		w.out(hand, put(key, "somebody", kv.Lease))
	default:
		incarnation := w.checks.incarnation(h.process)
		if incarnation == 0 {
			return
		}
		w.note(h, "somebody reports in its name that it has released everything")
		r := sharding.Report{Incarnation: incarnation, Generation: w.etcd.Revision() + 1000}
		w.out(hand, put(key, string(r.Encode()), kv.Lease))
		w.checks.forge(forged{address: h.address, incarnation: r.Incarnation})
	}
}

// revokeEarly simulates a leader of etcd that stood still and was deposed. When it continues, it has leases
// revoked that its successor has renewed. Some processes are cut off at that time.
func revokeEarly(w *world, h *host) {
	if w.faults.away {
		return
	}
	w.note(nil, "etcd elects another leader, the old one stands still")
	known := w.etcd.Term()
	if w.etcd.Elect(w.rand.IntN(w.members)); w.etcd.Term() == known {
		return // that member is not up
	}
	if w.chance(2) {
		w.cutFor(h, w.duration(h))
	}
	again := pick(w, w.hosts)
	w.after(w.between(0, w.ttl), func() {
		if w.chance(2) { // a new process cannot know the earlier claims
			w.restart(again)
		}
		if w.faults.away || w.faults.ended() {
			return
		}
		w.note(nil, "the old leader of etcd goes on")
		if l := w.leader(); l != nil && w.chance(2) { // it learns nothing of that
			w.pauseFor(l.host, w.between(100*time.Millisecond, w.ttl))
		}
		by, leases := early, w.etcd.Leases()
		if w.chance(2) {
			by = partly
			w.rand.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
		}
		for _, l := range leases {
			if l.Granted > known || time.Until(l.Ends) > w.ttl {
				continue // granted since then, or an outside candidate's
			}
			if by == partly && w.chance(2) {
				break
			}
			w.after(w.between(0, mostApart), func() { w.dropEarly(l.ID, by) })
		}
	})
}

// mostApart limits the time between the revocations of leases that have all expired for a deposed leader of
// etcd.
const mostApart = 5 * time.Millisecond

func (w *world) dropEarly(lease int64, author by) {
	if !slices.ContainsFunc(w.etcd.Leases(), func(l modeletcd.Lease) bool { return l.ID == lease }) {
		return
	}
	w.note(nil, "etcd revokes lease %x early", lease)
	w.revoke(author, lease)
}

// outsider adds an outside candidate: a program that is no node and queues with concurrency.Election, or an
// operator's etcdctl elect. It is no member, leads when it is first, and leaves or dies.
func outsider(w *world, _ *host) {
	if w.faults.away {
		return
	}
	lease := w.etcd.Grant(int64(1000 * w.ttl / time.Second)) // so long because it would renew it
	key := w.keys.Candidate(lease)
	if w.chance(4) {
		key = w.keys.Queue() + fmt.Sprintf("stray/%d", lease)
	}
	w.note(nil, "an outside candidate queues on lease %x", lease)
	w.out(nobody, put(key, "outside", lease))
	w.faults.last(w.between(0, 2*w.ttl), func() {
		if w.chance(2) {
			w.note(nil, "the outside candidate on lease %x leaves", lease)
			w.revoke(nobody, lease)
			return
		}
		w.note(nil, "the outside candidate on lease %x dies", lease)
		w.after(w.between(0, w.ttl), func() { w.revoke(nobody, lease) })
	})
}

func (c *checks) taint(incarnation int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taints = append(c.taints, incarnation)
}

func (c *checks) forge(f forged) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forged = append(c.forged, f)
}

func (c *checks) mapTaken() {
	at := c.w.etcd.Revision()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Count[MapTaken]++
	c.handed = append(c.handed, at)
}

// incarnation returns the incarnation of a process's last registration, or 0 if it never registered.
func (c *checks) incarnation(p *process) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p == nil {
		return 0
	}
	return p.known.incarnation
}

// key returns the present value of a key in etcd, or nil if it does not exist.
func (c *checks) key(key string) *mvccpb.KeyValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.truth.get(key)
}
