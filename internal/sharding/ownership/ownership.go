// Package ownership decides one member's part in the shards, as values: which shards to acquire, which to
// release, and what to report. It has no clock, goroutine or I/O; package consensusmanager carries out its
// orders.
//
//	       the map names it, and no other may serve any more
//	free ────────────────────────────────────────────────────────► acquiring ──► serving
//	  ▲                                                                │            │
//	  │                 the map names it no longer, names another epoch,            │
//	  └── all over ── releasing ◄── or the session is not valid ──────────────────┘
//
// Decisions are level-triggered: they follow from the map and the held shards, not from past events. A member
// that missed three maps acts the same as one that saw each of them.
//
// Not promised: a function that was asked to end may continue. Its shard is held until it ends.
package ownership

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/sharding"
)

// Input is the input of Decide and NextReport.
type Input struct {
	// Shards is the number of shards that this member works with. A map with another number is ignored.
	Shards int
	Map    *sharding.Map // nil if there is none
	// Own is this member as it is registered; the zero value means that it is not.
	Own sharding.Owner
	// Valid means that the session may be acted on. Suspected means that others may consider this member gone:
	// it then acquires nothing.
	Valid, Suspected bool
	// Done reports whether a move is done: the former owner has released the shard or is gone.
	Done func(sharding.Move) bool
	// Withheld reports whether a member without keys in etcd may still serve a shard, unaware of that; see
	// package lingering.
	Withheld func(shard int) bool
	// Held returns the epoch under which this member holds a shard, from the order to acquire it until it has
	// released it; 0 if it does not hold it; Lapsed if the session was not valid meanwhile.
	Held func(shard int) int64
	// Reported is this member's report as stored in etcd, the zero value if there is none.
	Reported sharding.Report
}

// Lapsed is the epoch of a held shard that was acquired before the session was suspended or lost: another
// member may have served it since.
const Lapsed = -1

// Grant is a shard to acquire and its epoch.
type Grant struct {
	Shard int
	Epoch int64
}

// Orders lists the actions that follow from a decision.
type Orders struct {
	Acquire []Grant
	// Release lists held shards that should not be held. Some may be on their way already.
	Release []int
	// Waiting is the number of this member's shards that it cannot serve yet, because another member has not
	// released them.
	Waiting int
}

// Decide decides once.
func Decide(in Input) Orders {
	var o Orders
	if in.Map != nil && in.Map.Shards() != in.Shards {
		in.Map = nil
	}
	for shard := range in.Shards {
		held := in.Held(shard)
		epoch, mine := mayServe(in, shard)
		switch {
		case held != 0 && (!mine || held != epoch):
			o.Release = append(o.Release, shard)
		case held == 0 && mine && !in.Suspected:
			o.Acquire = append(o.Acquire, Grant{Shard: shard, Epoch: epoch})
		case !mine && in.Valid && ownsShard(in, shard):
			o.Waiting++
		}
	}
	return o
}

func ownsShard(in Input, shard int) bool {
	if in.Map == nil || in.Own == (sharding.Owner{}) {
		return false
	}
	owner, ok := in.Map.Owner(shard)
	return ok && owner == in.Own
}

// mayServe reports whether this member may serve a shard, and under which epoch.
func mayServe(in Input, shard int) (epoch int64, ok bool) {
	if !in.Valid || !ownsShard(in, shard) {
		return 0, false
	}
	// A move from this very member waits for no other: the shard is held under the old epoch until it is
	// released, and acquired afterwards.
	if move, open := in.Map.Move(shard); open && move.From != in.Own && !in.Done(move) {
		return 0, false
	}
	if in.Withheld(shard) {
		return 0, false
	}
	return in.Map.Epoch(shard), true
}

// FirstReportDelay is the time for which the first report about a map waits for shards that are not free
// immediately. Shards released by then need no report of their own.
const FirstReportDelay = 5 * time.Millisecond

var (
	// StragglerReportDelay is the policy for the delays between reports about stragglers.
	StragglerReportDelay = backoff.Policy{First: 10 * time.Millisecond, Last: 160 * time.Millisecond}
	// ReportRetry is the policy for the delay after a report could not be written.
	ReportRetry = backoff.Policy{First: 50 * time.Millisecond, Last: 5 * time.Second}
)

// NextReport returns the report that this member must write about the shards that move away from it, nil if the one
// in etcd suffices. Call it once the orders of Decide are being carried out, so that shards that were free
// immediately need no report of their own. No report is needed if no other member waits for one. The exception
// is a report in this member's name by another process, which claims a release that has not happened, or names
// a later map.
func NextReport(in Input) *sharding.Report {
	if in.Map == nil || in.Own == (sharding.Owner{}) {
		return nil
	}
	awaited := in.Reported.Incarnation == in.Own.Incarnation && in.Reported.Generation > in.Map.Generation()
	r := sharding.Report{Incarnation: in.Own.Incarnation, Generation: in.Map.Generation()}
	for move := range in.Map.Moves() {
		if move.From != in.Own {
			continue
		}
		if held := in.Held(move.Shard); held != 0 && held < move.Since {
			r.Busy = append(r.Busy, move.Shard)
			awaited = true
		}
		awaited = awaited || !in.Done(move)
	}
	if !awaited || r.Equal(in.Reported) {
		return nil
	}
	return &r
}
