package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/txn"
)

// handOnShards is somebody who writes to the keys of the shards past everybody.
func handOnShards(w *world, h *host) {
	e := w.etcd
	if e.away {
		return
	}
	switch w.IntN(8) {
	case 0, 1, 2:
		if e.get(w.keys.ShardMap()) != nil {
			w.note(nil, "somebody deletes the shard map")
			w.handOn(txn.Op{Kind: txn.Delete, Key: w.keys.ShardMap()})
			w.checks.handed = append(w.checks.handed, e.revision)
			w.checks.count(MapTaken)
		}
	case 3, 4:
		w.note(nil, "somebody writes garbage into the shard map")
		w.handOn(txn.Op{Kind: txn.Put, Key: w.keys.ShardMap(), Value: "somebody"})
		w.checks.handed = append(w.checks.handed, e.revision)
		w.checks.count(MapTaken)
		w.faults.last(w.duration(h), w.deleteMap)
	default:
		handOnReport(w, h)
	}
}

// deleteMap is the operator, who deletes a map that nobody can read.
func (w *world) deleteMap() {
	kv := w.etcd.get(w.keys.ShardMap())
	if kv == nil {
		return
	}
	if _, err := sharding.Decode(kv.Value); err == nil {
		return
	}
	w.note(nil, "somebody deletes the shard map that cannot be read")
	w.handOn(txn.Op{Kind: txn.Delete, Key: w.keys.ShardMap()})
	w.checks.handed = append(w.checks.handed, w.etcd.revision)
}

// handOnReport deletes what a member has said it released, or makes something else of it.
func handOnReport(w *world, h *host) {
	key := w.keys.Released(h.address)
	kv := w.etcd.get(key)
	if kv == nil {
		return
	}
	w.checks.count(ReportTaken)
	switch w.IntN(3) {
	case 0:
		w.note(h, "somebody deletes its report")
		w.handOn(txn.Op{Kind: txn.Delete, Key: key})
	case 1:
		w.note(h, "somebody writes garbage into its report")
		w.handOn(txn.Op{Kind: txn.Put, Key: key, Value: "somebody", Lease: kv.Lease})
	default:
		p := h.process
		if p == nil || p.member.incarnation == 0 {
			return
		}
		w.note(h, "somebody reports in its name that it has released everything")
		r := sharding.Report{Incarnation: p.member.incarnation, Generation: w.etcd.revision + 1000}
		w.handOn(txn.Op{Kind: txn.Put, Key: key, Value: string(r.Encode()), Lease: kv.Lease})
		w.checks.forged = append(w.checks.forged, forged{address: h.address, incarnation: r.Incarnation})
	}
}

// handOn is one change out of band.
func (w *world) handOn(op txn.Op) {
	w.etcd.author = cause{by: hand}
	_, _ = w.etcd.execute(nil, txn.Txn{Then: []txn.Op{op}})
}

// pauseInPlanning stops a process that has made a plan and not sent it yet.
func pauseInPlanning(w *world, h *host) {
	t := trigger{moment: planned, skip: w.IntN(2)}
	t.begin = func() {
		if l := w.planning(); l != nil {
			w.pauseFor(l.host, w.duration(l.host))
		}
	}
	w.faults.waiting = append(w.faults.waiting, t)
	if w.chance(2) { // something to plan for
		w.after(w.between(0, 50*time.Millisecond), func() { crash(w, h) })
	}
}

// planning is a process that is in the middle of it.
func (w *world) planning() *process {
	for _, h := range w.hosts {
		if p := h.process; p != nil && p.planner.busy {
			return p
		}
	}
	return nil
}
