// Package ownership is one member's part in the shards, as values: which of them it is to
// acquire, which to release, and what to report. It has no clock, goroutine or I/O;
// package consensusmanager carries its orders out.
//
//	       the map names it, and nobody else may serve any more
//	free ────────────────────────────────────────────────────────► acquiring ──► serving
//	  ▲                                                                │            │
//	  │                 the map names it no longer, names another epoch,            │
//	  └── all over ── releasing ◄── or the session is not valid ──────────────────┘
//
// Decisions are level-triggered: they follow from what the map says and what is held, not
// from what happened. A member that missed three maps does the same as one that saw each.
//
// Not promised: that a function which was asked to end does. A shard is held until it does.
package ownership

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/sharding"
)

// Seen is what a look is made with.
type Seen struct {
	// Shards is how many this member works with. A map with another number is no map.
	Shards int
	Map    *sharding.Map // nil: there is none
	// Own is this member as it is registered; the zero value is not.
	Own sharding.Owner
	// Valid says that the session may be acted on, Suspected that others may take this member
	// for gone: it then acquires nothing.
	Valid, Suspected bool
	// Done reports whether a move is done: whom the shard moves from has released it, or
	// is gone.
	Done func(sharding.Move) bool
	// Withheld reports whether a member whose keys are gone may serve a shard and not know that;
	// see package lingering.
	Withheld func(shard int) bool
	// Held is the epoch under which this member holds a shard, from the order to acquire
	// it until it has released; 0: it does not; Lapsed: the session was not valid meanwhile.
	Held func(shard int) int64
	// Reported is this member's report as etcd has it, the zero value if there is none.
	Reported sharding.Report
}

// Lapsed is what a shard is held under that was acquired before the session was suspended
// or lost: another member may have served it since.
const Lapsed = -1

// Grant is a shard to acquire, and under which epoch.
type Grant struct {
	Shard int
	Epoch int64
}

// Orders are what follows from a look.
type Orders struct {
	Acquire []Grant
	// Release are held and should not be. Some may be on their way already.
	Release []int
	// Waiting is how many shards are this member's and still somebody else's to release.
	Waiting int
}

// Look decides once.
func Look(in Seen) Orders {
	var o Orders
	if in.Map != nil && in.Map.Shards() != in.Shards {
		in.Map = nil
	}
	for shard := range in.Shards {
		held := in.Held(shard)
		epoch, mine := entitled(in, shard)
		switch {
		case held != 0 && (!mine || held != epoch):
			o.Release = append(o.Release, shard)
		case held == 0 && mine && !in.Suspected:
			o.Acquire = append(o.Acquire, Grant{Shard: shard, Epoch: epoch})
		case !mine && in.Valid && owns(in, shard):
			o.Waiting++
		}
	}
	return o
}

func owns(in Seen, shard int) bool {
	if in.Map == nil || in.Own == (sharding.Owner{}) {
		return false
	}
	owner, ok := in.Map.Owner(shard)
	return ok && owner == in.Own
}

// entitled reports whether this member may serve a shard, and under which epoch.
func entitled(in Seen, shard int) (epoch int64, ok bool) {
	if !in.Valid || !owns(in, shard) {
		return 0, false
	}
	// A move from this very member waits for nobody else: the shard is held under the old
	// epoch until it was released, and acquired after.
	if move, open := in.Map.Move(shard); open && move.From != in.Own && !in.Done(move) {
		return 0, false
	}
	if in.Withheld(shard) {
		return 0, false
	}
	return in.Map.Epoch(shard), true
}

// FirstReport is how long the first report about a map waits for shards that are not free at once:
// what ends by then needs no report of its own.
const FirstReport = 5 * time.Millisecond

var (
	// ReportAgain is how long to wait between reports about stragglers.
	ReportAgain = backoff.Policy{First: 10 * time.Millisecond, Last: 160 * time.Millisecond}
	// ReportRetry is how long to wait after a report that could not be written.
	ReportRetry = backoff.Policy{First: 50 * time.Millisecond, Last: 5 * time.Second}
)

// Report is what this member has to write about the shards that move away from it, to be
// asked when the orders of a look are on their way: what was free at once needs no report of
// its own. It is nil if what etcd has will do: if nobody waits, unless somebody wrote in
// this member's name that it has released what it has not, or of what a later map will take.
func Report(in Seen) *sharding.Report {
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
