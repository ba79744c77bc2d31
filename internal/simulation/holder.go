package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/ownership"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
)

// holder stands for consensus.Shards: it acquires shards and releases them as
// package ownership says.
type holder struct {
	p       *process
	slots   []slot   // none with sharding off
	session *session // it serves on, nil between two
	poked   bool
	leaving bool // nothing is acquired any more
	reporter
}

// serve is Shards.serve: it begins to look on a session that was registered.
func (h *holder) serve(s *session) {
	h.session = s
	h.poke()
}

// lost: the session is done.
func (h *holder) lost(s *session) {
	if h.session == s {
		h.look(nil)
		h.session = nil
	}
}

func (h *holder) poke() {
	if h.session != nil && !h.poked && len(h.slots) > 0 {
		h.poked = true
		h.p.soon(func() {
			h.poked = false
			if h.session != nil {
				h.look(h.session)
			}
		})
	}
}

// concernsShards is consensus's.
func concernsShards(before, now *state.Snapshot) bool {
	return before.ShardMap != now.ShardMap || !same(before.Members, now.Members) || !same(before.Released, now.Released)
}

func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// look is Shards.look.
func (h *holder) look(s *session) {
	p := h.p
	snap := p.mirror.snapshot
	if snap == nil || len(h.slots) == 0 {
		return
	}
	period := 0
	in := ownership.Seen{Shards: len(h.slots), Done: snap.MoveDone, Withheld: snap.Withheld,
		Held: func(shard int) int64 { return h.slots[shard].held(s, period) }}
	if snap.ShardMap != nil {
		in.Map = snap.ShardMap.Map
	}
	if s != nil {
		period = s.claim.Period()
		in.Valid, in.Suspected = s.valid() && !h.leaving, s.claim.Suspected()
		if m := snap.Member(p.host.address); m != nil && m.KeyLease == s.lease {
			in.Own = sharding.Owner{Address: m.Address, Incarnation: m.Incarnation}
		}
	}
	if r := snap.ReleasedBy(p.host.address); r != nil {
		in.Reported = r.Report
	}
	orders := ownership.Look(in)
	for _, shard := range orders.Release {
		h.release(shard)
	}
	for _, g := range orders.Acquire {
		h.acquire(g, s, period)
	}
	h.want(ownership.Report(in))
}

// acquire is Shards.acquire. Some users do something first, which takes a while at times.
func (h *holder) acquire(g ownership.Grant, s *session, period int) {
	p, x := h.p, &h.slots[g.Shard]
	x.begin(g, s, period, p.host.roles.asked)
	if !p.host.roles.asked {
		p.w.checks.serves(p, g.Shard)
		return
	}
	p.after(h.takes(), func() {
		if x.acquired() {
			h.finishRelease(g.Shard)
		} else {
			p.w.checks.serves(p, g.Shard)
		}
	})
}

// release is Shards.release: what runs in a shard is waited for. Calls come and go without
// anybody taking notice of them until then, so what still runs is drawn here.
func (h *holder) release(shard int) {
	x := &h.slots[shard]
	if x.epoch != 0 && !x.counts() {
		h.p.w.checks.count(ShardLapsed)
	}
	if !x.drop() {
		return
	}
	if h.p.w.chance(2) {
		h.clear(shard)
		return
	}
	h.finishRelease(shard)
}

// finishRelease is Shards.finishRelease: calls end, some of them only when they are asked to and later,
// and what users do last.
func (h *holder) finishRelease(shard int) {
	h.p.after(h.takes(), func() { h.clear(shard) })
}

// takes is how long something of a user takes.
func (h *holder) takes() time.Duration {
	w := h.p.w
	if w.chance(8) {
		return w.between(0, w.ttl)
	}
	return w.between(0, 20*time.Millisecond)
}

// clear is Shards.clear.
func (h *holder) clear(shard int) {
	h.slots[shard] = slot{}
	h.poke()
}

// held is Shards.Held.
func (h *holder) held() (n int) {
	for i := range h.slots {
		if h.slots[i].phase != idle {
			n++
		}
	}
	return n
}
