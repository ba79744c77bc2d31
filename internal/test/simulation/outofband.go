package simulation

import (
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/test/modeletcd"
	"github.com/goverse/goverse/internal/test/schedule"
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
	_, _ = w.Etcd.Execute(&pb.TxnRequest{Success: []*pb.RequestOp{op}}) // the lease may be gone
	w.checks.setOriginator(byNobody)
}

// revokeLease revokes a lease out of band.
func (w *world) revokeLease(author originator, lease int64) {
	w.checks.recordLoss(author, lease)
	w.checks.setOriginator(author)
	w.Etcd.Revoke(lease)
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
	t := keyLoss{lease: lease, at: c.w.Now(), by: author}
	for _, p := range c.processes {
		if s := p.session(); s != nil && int64(s.ID()) == lease && s.Err() == nil && !p.dead.Load() {
			t.from = p
		}
	}
	c.losses = append(c.losses, t)
}

// changeKeysOutOfBand changes or deletes a key of a host, or revokes its lease, out of band.
func changeKeysOutOfBand(w *world, h *host) {
	p := h.process
	if p == nil || p.session() == nil || w.EtcdDown() {
		return
	}
	lease := int64(p.session().ID())
	key := schedule.Pick(w.Rand, w.keys.Candidate(lease), w.keys.Candidate(lease), w.keys.Node(h.address), w.keys.Acting())
	switch w.Rand.IntN(4) {
	case 0:
		w.noteFault(h, "its lease %x is revoked out of band", lease)
		w.revokeLease(byOutOfBand, lease)
	case 1:
		kv := w.checks.currentKey(key)
		if kv == nil || key == w.keys.Acting() {
			return
		}
		w.noteFault(h, "%s is altered out of band", key)
		if key == w.keys.Node(h.address) {
			w.checks.recordTainted(kv.CreateRevision)
		}
		onto := int64(0)
		if w.OneIn(2) {
			onto = kv.Lease
		}
		w.changeOutOfBand(byOutOfBand, putOp(key, "altered", onto))
	default:
		w.noteFault(h, "%s is deleted out of band", key)
		w.changeOutOfBand(byOutOfBand, deleteOp(key))
	}
}

// changeShardsOutOfBand changes or deletes the shard map or a report out of band.
func changeShardsOutOfBand(w *world, h *host) {
	if w.EtcdDown() {
		return
	}
	switch w.Rand.IntN(8) {
	case 0, 1, 2:
		if w.checks.currentKey(w.keys.ShardMap()) != nil {
			w.noteFault(nil, "the shard map is deleted out of band")
			w.changeOutOfBand(byOutOfBand, deleteOp(w.keys.ShardMap()))
			w.checks.recordMapTaken()
		}
	case 3, 4:
		w.noteFault(nil, "the shard map is overwritten with garbage")
		w.changeOutOfBand(byOutOfBand, putOp(w.keys.ShardMap(), "altered", 0))
		w.checks.recordMapTaken()
		w.EndAfter(w.drawDuration(h), w.deleteMap)
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
	w.noteFault(nil, "the unreadable shard map is deleted")
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
	w.Counts.Count(ReportTaken)
	switch w.Rand.IntN(3) {
	case 0:
		w.noteFault(h, "its report is deleted out of band")
		w.changeOutOfBand(byOutOfBand, deleteOp(key))
	case 1:
		w.noteFault(h, "its report is overwritten with garbage")
		w.changeOutOfBand(byOutOfBand, putOp(key, "altered", kv.Lease))
	default:
		incarnation := w.checks.lastIncarnation(h.process)
		if incarnation == 0 {
			return
		}
		w.noteFault(h, "a forged report says that it has released all shards")
		r := sharding.Report{Incarnation: incarnation, Generation: w.Etcd.Revision() + 1000}
		w.changeOutOfBand(byOutOfBand, putOp(key, string(r.Encode()), kv.Lease))
		w.checks.recordForged(forgedReport{address: h.address, incarnation: r.Incarnation})
	}
}

// revokeEarly simulates a leader of etcd that stood still and was deposed. When it continues, it has leases
// revoked that its successor has renewed. Some processes are cut off at that time.
func revokeEarly(w *world, h *host) {
	if w.EtcdDown() {
		return
	}
	w.noteFault(nil, "etcd elects another leader while the old one is stopped")
	known := w.Etcd.Term()
	if w.Etcd.Elect(w.Rand.IntN(w.Members)); w.Etcd.Term() == known {
		return // that member is not up
	}
	if w.OneIn(2) {
		h.link.CutOff(w.drawDuration(h))
	}
	again := schedule.Pick(w.Rand, w.hosts...)
	w.After(w.Between(0, w.ttl), func() {
		if w.OneIn(2) { // a new process cannot know the earlier claims
			w.restart(again)
		}
		if w.EtcdDown() || w.IsHealed() {
			return
		}
		w.noteFault(nil, "the old leader of etcd continues")
		if l := w.leadingProcess(); l != nil && w.OneIn(2) { // it learns nothing of that
			w.pauseFor(l.host, w.Between(100*time.Millisecond, w.ttl))
		}
		by, leases := byEtcdEarly, w.Etcd.Leases()
		if w.OneIn(2) {
			by = byEtcdPartly
			w.Rand.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
		}
		for _, l := range leases {
			if l.Granted > known || time.Until(l.Ends) > w.ttl {
				continue // granted since then, or an outside candidate's
			}
			if by == byEtcdPartly && w.OneIn(2) {
				break
			}
			w.After(w.Between(0, maxApart), func() { w.revokeLeaseEarly(l.ID, by) })
		}
	})
}

// maxApart limits the time between the revocations of leases that have all expired for a deposed leader of
// etcd.
const maxApart = 5 * time.Millisecond

func (w *world) revokeLeaseEarly(lease int64, author originator) {
	if !slices.ContainsFunc(w.Etcd.Leases(), func(l modeletcd.Lease) bool { return l.ID == lease }) {
		return
	}
	w.noteFault(nil, "etcd revokes lease %x early", lease)
	w.revokeLease(author, lease)
}

// addOutsider adds an outside candidate: a program that is no node and queues with concurrency.Election, or an
// operator's etcdctl elect. It is no member, leads when it is first, and leaves or dies.
func addOutsider(w *world, _ *host) {
	if w.EtcdDown() {
		return
	}
	lease := w.Etcd.Grant(int64(1000 * w.ttl / time.Second)) // so long because it would renew it
	key := w.keys.Candidate(lease)
	if w.OneIn(4) {
		key = w.keys.Queue() + fmt.Sprintf("stray/%d", lease)
	}
	w.noteFault(nil, "an outside candidate queues on lease %x", lease)
	w.changeOutOfBand(byNobody, putOp(key, "outside", lease))
	w.EndAfter(w.Between(0, 2*w.ttl), func() {
		if w.OneIn(2) {
			w.noteFault(nil, "the outside candidate on lease %x leaves", lease)
			w.revokeLease(byNobody, lease)
			return
		}
		w.noteFault(nil, "the outside candidate on lease %x dies", lease)
		w.After(w.Between(0, w.ttl), func() { w.revokeLease(byNobody, lease) })
	})
}

func (c *checks) recordTainted(incarnation int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taints = append(c.taints, incarnation)
}

// isTainted reports whether a member's record was altered out of band.
func (c *checks) isTainted(incarnation int64) bool { return slices.Contains(c.taints, incarnation) }

func (c *checks) recordForged(f forgedReport) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forged = append(c.forged, f)
}

func (c *checks) recordMapTaken() {
	at := c.w.Etcd.Revision()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.Counts.Count(MapTaken)
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
