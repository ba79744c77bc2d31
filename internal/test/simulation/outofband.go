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

func putOp(key, value string, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key),
		Value: []byte(value), Lease: lease}}}
}

func deleteOp(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
}

// changeOutOfBand makes one out-of-band change; author is the originator of a deletion.
func (w *world) changeOutOfBand(author originator, op *pb.RequestOp) {
	w.checks.setOriginator(author)
	_, _ = w.etcd.Execute(&pb.TxnRequest{Success: []*pb.RequestOp{op}}) // the lease may be gone
	w.checks.setOriginator(byNobody)
}

// revokeLease revokes a lease out of band.
func (w *world) revokeLease(author originator, lease int64) {
	w.checks.recordLoss(author, lease)
	w.checks.setOriginator(author)
	w.etcd.Revoke(lease)
	w.checks.setOriginator(byNobody)
}

// setOriginator sets the originator of the out-of-band changes that follow.
func (c *checks) setOriginator(author originator) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.author = author
}

// recordLoss records that a lease is taken from its owner.
func (c *checks) recordLoss(author originator, lease int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if author == byNobody {
		return
	}
	t := keyLoss{lease: lease, at: c.w.now(), by: author}
	for _, p := range c.processes {
		if s := p.session(); s != nil && int64(s.ID()) == lease && s.Err() == nil && !p.dead.Load() {
			t.from = p
		}
	}
	c.losses = append(c.losses, t)
}

// countFault counts a fault.
func (c *checks) countFault(n int) {
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
	key := pickOne(w, []string{w.keys.Candidate(lease), w.keys.Candidate(lease), w.keys.Node(h.address), w.keys.Acting()})
	switch w.rand.IntN(4) {
	case 0:
		w.noteFault(h, "somebody revokes its lease %x", lease)
		w.revokeLease(byOutOfBand, lease)
	case 1:
		kv := w.checks.currentKey(key)
		if kv == nil || key == w.keys.Acting() {
			return
		}
		w.noteFault(h, "somebody alters %s", key)
		if key == w.keys.Node(h.address) {
			w.checks.recordTainted(kv.CreateRevision)
		}
		onto := int64(0)
		if w.drawChance(2) {
			onto = kv.Lease
		}
		w.changeOutOfBand(byOutOfBand, putOp(key, "somebody", onto))
	default:
		w.noteFault(h, "somebody deletes %s", key)
		w.changeOutOfBand(byOutOfBand, deleteOp(key))
	}
}

// changeShardsOutOfBand changes or deletes the shard map or a report out of band.
func changeShardsOutOfBand(w *world, h *host) {
	if w.faults.away {
		return
	}
	switch w.rand.IntN(8) {
	case 0, 1, 2:
		if w.checks.currentKey(w.keys.ShardMap()) != nil {
			w.noteFault(nil, "somebody deletes the shard map")
			w.changeOutOfBand(byOutOfBand, deleteOp(w.keys.ShardMap()))
			w.checks.recordMapTaken()
		}
	case 3, 4:
		w.noteFault(nil, "somebody writes garbage into the shard map")
		w.changeOutOfBand(byOutOfBand, putOp(w.keys.ShardMap(), "somebody", 0))
		w.checks.recordMapTaken()
		w.faults.endAfter(w.drawDuration(h), w.deleteMap)
	default:
		changeReportOutOfBand(w, h)
	}
}

// deleteMap deletes an unreadable shard map, as an operator would.
func (w *world) deleteMap() {
	kv := w.checks.currentKey(w.keys.ShardMap())
	if kv == nil {
		return
	}
	if _, err := sharding.DecodeMap(kv.Value); err == nil {
		return
	}
	w.noteFault(nil, "somebody deletes the shard map that cannot be read")
	w.changeOutOfBand(byOutOfBand, deleteOp(w.keys.ShardMap()))
	w.checks.recordMapTaken()
}

// changeReportOutOfBand deletes or overwrites a member's report of released shards.
func changeReportOutOfBand(w *world, h *host) {
	key := w.keys.Released(h.address)
	kv := w.checks.currentKey(key)
	if kv == nil {
		return
	}
	w.checks.countOccurrence(ReportTaken)
	switch w.rand.IntN(3) {
	case 0:
		w.noteFault(h, "somebody deletes its report")
		w.changeOutOfBand(byOutOfBand, deleteOp(key))
	case 1:
		w.noteFault(h, "somebody writes garbage into its report")
		w.changeOutOfBand(byOutOfBand, putOp(key, "somebody", kv.Lease))
	default:
		incarnation := w.checks.lastIncarnation(h.process)
		if incarnation == 0 {
			return
		}
		w.noteFault(h, "somebody reports in its name that it has released everything")
		r := sharding.Report{Incarnation: incarnation, Generation: w.etcd.Revision() + 1000}
		w.changeOutOfBand(byOutOfBand, putOp(key, string(r.Encode()), kv.Lease))
		w.checks.recordForged(forgedReport{address: h.address, incarnation: r.Incarnation})
	}
}

// revokeEarly simulates a leader of etcd that stood still and was deposed. When it continues, it has leases
// revoked that its successor has renewed. Some processes are cut off at that time.
func revokeEarly(w *world, h *host) {
	if w.faults.away {
		return
	}
	w.noteFault(nil, "etcd elects another leader, the old one stands still")
	known := w.etcd.Term()
	if w.etcd.Elect(w.rand.IntN(w.members)); w.etcd.Term() == known {
		return // that member is not up
	}
	if w.drawChance(2) {
		w.cutEtcdFor(h, w.drawDuration(h))
	}
	again := pickOne(w, w.hosts)
	w.after(w.drawBetween(0, w.ttl), func() {
		if w.drawChance(2) { // a new process cannot know the earlier claims
			w.restart(again)
		}
		if w.faults.away || w.faults.isHealed() {
			return
		}
		w.noteFault(nil, "the old leader of etcd goes on")
		if l := w.leadingProcess(); l != nil && w.drawChance(2) { // it learns nothing of that
			w.pauseFor(l.host, w.drawBetween(100*time.Millisecond, w.ttl))
		}
		by, leases := byEtcdEarly, w.etcd.Leases()
		if w.drawChance(2) {
			by = byEtcdPartly
			w.rand.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
		}
		for _, l := range leases {
			if l.Granted > known || time.Until(l.Ends) > w.ttl {
				continue // granted since then, or an outside candidate's
			}
			if by == byEtcdPartly && w.drawChance(2) {
				break
			}
			w.after(w.drawBetween(0, maxApart), func() { w.revokeLeaseEarly(l.ID, by) })
		}
	})
}

// maxApart limits the time between the revocations of leases that have all expired for a deposed leader of
// etcd.
const maxApart = 5 * time.Millisecond

func (w *world) revokeLeaseEarly(lease int64, author originator) {
	if !slices.ContainsFunc(w.etcd.Leases(), func(l modeletcd.Lease) bool { return l.ID == lease }) {
		return
	}
	w.noteFault(nil, "etcd revokes lease %x early", lease)
	w.revokeLease(author, lease)
}

// addOutsider adds an outside candidate: a program that is no node and queues with concurrency.Election, or an
// operator's etcdctl elect. It is no member, leads when it is first, and leaves or dies.
func addOutsider(w *world, _ *host) {
	if w.faults.away {
		return
	}
	lease := w.etcd.Grant(int64(1000 * w.ttl / time.Second)) // so long because it would renew it
	key := w.keys.Candidate(lease)
	if w.drawChance(4) {
		key = w.keys.Queue() + fmt.Sprintf("stray/%d", lease)
	}
	w.noteFault(nil, "an outside candidate queues on lease %x", lease)
	w.changeOutOfBand(byNobody, putOp(key, "outside", lease))
	w.faults.endAfter(w.drawBetween(0, 2*w.ttl), func() {
		if w.drawChance(2) {
			w.noteFault(nil, "the outside candidate on lease %x leaves", lease)
			w.revokeLease(byNobody, lease)
			return
		}
		w.noteFault(nil, "the outside candidate on lease %x dies", lease)
		w.after(w.drawBetween(0, w.ttl), func() { w.revokeLease(byNobody, lease) })
	})
}

func (c *checks) recordTainted(incarnation int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taints = append(c.taints, incarnation)
}

func (c *checks) recordForged(f forgedReport) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forged = append(c.forged, f)
}

func (c *checks) recordMapTaken() {
	at := c.w.etcd.Revision()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Count[MapTaken]++
	c.outOfBandMaps = append(c.outOfBandMaps, at)
}

// lastIncarnation returns the incarnation of a process's last registration, or 0 if it never registered.
func (c *checks) lastIncarnation(p *process) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p == nil {
		return 0
	}
	return p.facts.incarnation
}

// currentKey returns the present value of a key in etcd, or nil if it does not exist.
func (c *checks) currentKey(key string) *mvccpb.KeyValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.truth.getKey(key)
}
