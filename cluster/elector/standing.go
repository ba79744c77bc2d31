package elector

import (
	"math"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// standing is what one elector knows and holds: a value without clock or I/O, whose methods
// return the one that follows.
//
// Only a write that was answered begins a term or extends it, from when it was sent. A write
// without an answer leaves the standing unsure; then the record is read, and what was read is
// only what to compare with next. So it does not matter whether a write is carried out late.
type standing struct {
	id, instance string
	duration     time.Duration // of this elector's leases
	period       time.Duration // between two looks or renewals

	record Lease            // as it was last seen
	found  bool             // whether there is one
	sure   bool             // nothing was written since of which it is not known what it did
	since  deadline.Instant // when the record was first seen as it is
	next   int64            // when the store is asked next, on the monotonic clock
	last   int64            // the largest LeaderTransitions seen
	asked  bool             // a lease was asked for

	unanswered bool   // the newest write was not answered: it may still be carried out over
	over       string // the record of this version, "" for none

	leading bool
	claim   deadline.Claim // of the term
	token   int64          // of the term
	working bool           // a term is over, and its functions have not returned
}

// action is what to do with the store.
type action int

const (
	rest action = iota // until step.at
	get
	create
	update
	done
)

type step struct {
	do    action
	at    int64 // of rest, on the monotonic clock
	lease Lease // of create and update
}

// leads reports whether this elector leads at this instant.
func (s standing) leads(now deadline.Instant) bool { return s.leading && s.claim.Valid(now) }

// mine reports whether this very elector wrote the record and nobody else since.
func (s standing) mine() bool { return s.found && s.record.HolderInstance == s.instance }

// expiry is how long the record has to stay as it is.
func (s standing) expiry() time.Duration {
	if s.record.LeaseDuration > 0 {
		return min(s.record.LeaseDuration, mostLease)
	}
	return s.duration
}

// vacant reports whether the lease may be taken. That time passed is judged by the clock that
// nobody can set, from when the record was seen here, not from when it says it was written. The
// own lease is never in the way: this is not asked in a term or while one's functions run. A record
// with the greatest number there is leaves no greater one for a term: no elector wrote it, and it has
// to be deleted.
func (s standing) vacant(now deadline.Instant) bool {
	if s.last == math.MaxInt64 {
		return false
	}
	return !s.found || s.record.HolderIdentity == "" || s.mine() || now.Mono >= s.since.Mono+int64(s.expiry())
}

// decide is what to do now.
func (s standing) decide(now deadline.Instant) step {
	idle := !s.leading && !s.working
	switch {
	case s.sure && idle && s.vacant(now):
		return s.acquire(now)
	case now.Mono >= s.next && s.sure && s.leads(now):
		l := s.record
		l.LeaseDuration, l.RenewTime = s.duration, stamp(now)
		return step{do: update, lease: l}
	case now.Mono >= s.next:
		return step{do: get}
	case s.sure && idle && s.last < math.MaxInt64:
		return step{do: rest, at: min(s.next, s.since.Mono+int64(s.expiry()))}
	}
	return step{do: rest, at: s.next}
}

func (s standing) acquire(now deadline.Instant) step {
	l := Lease{HolderIdentity: s.id, HolderInstance: s.instance, LeaseDuration: s.duration,
		AcquireTime: stamp(now), RenewTime: stamp(now), LeaderTransitions: s.last + 1}
	if !s.found {
		return step{do: create, lease: l}
	}
	l.Version = s.record.Version
	return step{do: update, lease: l}
}

// leave is what to do to leave the lease to others, when no term's function runs.
func (s standing) leave(now deadline.Instant) step {
	switch {
	case !s.asked, s.sure && !s.mine() && !s.inFlight():
		return step{do: done}
	case now.Mono < s.next:
		return step{do: rest, at: s.next}
	case !s.sure:
		return step{do: get}
	case !s.found:
		return step{do: create, lease: Lease{LeaseDuration: s.duration, AcquireTime: stamp(now), RenewTime: stamp(now),
			LeaderTransitions: s.last}}
	}
	l := s.record
	l.HolderIdentity, l.HolderInstance, l.RenewTime = "", "", stamp(now)
	return step{do: update, lease: l}
}

// inFlight reports whether an own write may still be carried out, as far as was read: it took the lease, for that was
// vacant, and is refused as soon as another one is carried out.
func (s standing) inFlight() bool { return s.unanswered && s.record.Version == s.over }

// stamp is an instant as it is written down: as precise as every store keeps it.
func stamp(now deadline.Instant) time.Time {
	return time.Unix(0, now.Wall).UTC().Truncate(time.Microsecond)
}

// sends is the standing from when a step is sent until it is answered.
func (s standing) sends(do action) standing {
	if do == create || do == update {
		s.sure, s.asked, s.unanswered, s.over = false, true, true, s.record.Version
	}
	return s
}

// got is the standing after a read that was answered now.
func (s standing) got(record Lease, found bool, now deadline.Instant) standing {
	s = s.saw(record, found, now)
	switch {
	case s.leading && s.mine() && record.LeaderTransitions == s.token:
		s.next = now.Mono // it was read because there was trouble: renew
	case s.leading:
		s = s.ended()
	default:
		s.next = now.Mono + int64(s.period)
	}
	return s
}

// wrote is the standing after a write that was sent and answered at these instants, with the
// record as it stands now.
func (s standing) wrote(record Lease, sent, answered deadline.Instant) standing {
	s = s.saw(record, true, answered)
	s.unanswered = false
	s.next = sent.Mono + int64(s.period)
	switch {
	case s.leading:
		s.claim = s.claim.Renewed(sent, answered)
	case s.mine():
		s.claim, s.token = deadline.Granted(sent, s.duration), record.LeaderTransitions
		s.leading = s.claim.Valid(answered)
	}
	return s
}

func (s standing) saw(record Lease, found bool, now deadline.Instant) standing {
	if found != s.found || record.Version != s.record.Version {
		s.since = now
	}
	s.record, s.found, s.sure = record, found, true
	s.last = max(s.last, record.LeaderTransitions)
	return s
}

// failed is the standing after a request that failed now. A conflict says that the record is
// another one: it is read soon. A leader has no time to lose either.
func (s standing) failed(conflict bool, now deadline.Instant) standing {
	pause := s.period
	s.unanswered = s.unanswered && !conflict
	switch {
	case conflict:
		pause /= 10
	case s.leading:
		pause /= 4
	}
	s.next = now.Mono + int64(pause)
	return s
}

// prompted is the standing after a sign that the record may have changed.
func (s standing) prompted(now deadline.Instant) standing {
	s.next = min(s.next, now.Mono)
	return s
}

// ended is the standing when a term is over and its functions run; returned, when they have.
func (s standing) ended() standing {
	s.leading, s.working = false, true
	return s
}

func (s standing) returned() standing {
	s.leading, s.working = false, false
	return s
}

// other is the identity of who leads, if it is another elector and known to this one; "" if
// not. Here both clocks count: who was suspended does not know.
func (s standing) other(now deadline.Instant) string {
	if !s.found || s.mine() || now.Reached(s.since.Add(s.expiry())) {
		return ""
	}
	return s.record.HolderIdentity
}
