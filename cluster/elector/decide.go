package elector

import (
	"math"
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
)

// leaseState is the knowledge and the lease of one elector. It is a value without clock or I/O; its methods
// return the next state.
//
// Only an answered write begins or extends a term, and it counts from when it was sent. An unanswered write
// leaves the state unsure. The record is then read, and the result only serves as the version to compare
// with next. So it does not matter whether a delayed write is carried out.
type leaseState struct {
	id, instance string
	duration     time.Duration // of this elector's leases
	period       time.Duration // between two reads or renewals

	record      Lease            // as last seen
	found       bool             // there is a record
	writesKnown bool             // the outcome of every write since is known
	since       deadline.Instant // when the current record was first seen
	next        int64            // when to ask the store next, on the monotonic clock
	hintsSpent  int64            // until when the pauses last that hints have used up, on the monotonic clock
	last        int64            // the largest LeaderTransitions seen
	writeSent   bool             // a write was sent

	unanswered      bool   // the newest write was not answered and may still be carried out
	replacedVersion string // the version that the newest write replaces; "" if it creates the record

	leading bool
	claim   deadline.Claim // of the term
	token   int64          // of the term
	working bool           // a term is over, and its callbacks have not returned
}

// action is an action on the store.
type action int

const (
	doRest action = iota // until step.at
	doGet
	doCreate
	doUpdate
	doFinish
)

type step struct {
	do    action
	at    int64 // of doRest, on the monotonic clock
	lease Lease // of doCreate and doUpdate
}

// leads reports whether this elector leads at this instant.
func (s leaseState) leads(now deadline.Instant) bool { return s.leading && s.claim.Valid(now) }

// holdsRecord reports whether this elector wrote the record and no other has written since.
func (s leaseState) holdsRecord() bool { return s.found && s.record.HolderInstance == s.instance }

// takeoverDelay returns the time for which the record must remain unchanged before it may be taken.
func (s leaseState) takeoverDelay() time.Duration {
	if s.record.LeaseDuration > 0 {
		return min(s.record.LeaseDuration, maxLease)
	}
	return s.duration
}

// leaseVacant reports whether the lease may be taken. Elapsed time is measured with the monotonic clock, from when
// this elector saw the record, not from the record's own times. The elector's own lease does not block it,
// because leaseVacant is not called in a term or while its callbacks run. A record with the largest possible number
// leaves no number for another term. No elector wrote it, and it must be deleted.
func (s leaseState) leaseVacant(now deadline.Instant) bool {
	if s.last == math.MaxInt64 {
		return false
	}
	return !s.found || s.record.HolderIdentity == "" || s.holdsRecord() ||
		now.Mono >= s.since.Mono+int64(s.takeoverDelay())
}

// nextStep returns the next step.
func (s leaseState) nextStep(now deadline.Instant) step {
	idle := !s.leading && !s.working
	switch {
	case s.writesKnown && idle && s.leaseVacant(now):
		return s.acquireStep(now)
	case now.Mono >= s.next && s.writesKnown && s.leads(now):
		l := s.record
		l.LeaseDuration, l.RenewTime = s.duration, storedTime(now)
		return step{do: doUpdate, lease: l}
	case now.Mono >= s.next:
		return step{do: doGet}
	case s.writesKnown && idle && s.last < math.MaxInt64:
		return step{do: doRest, at: min(s.next, s.since.Mono+int64(s.takeoverDelay()))}
	}
	return step{do: doRest, at: s.next}
}

func (s leaseState) acquireStep(now deadline.Instant) step {
	l := Lease{HolderIdentity: s.id, HolderInstance: s.instance, LeaseDuration: s.duration,
		AcquireTime: storedTime(now), RenewTime: storedTime(now), LeaderTransitions: s.last + 1}
	if !s.found {
		return step{do: doCreate, lease: l}
	}
	l.Version = s.record.Version
	return step{do: doUpdate, lease: l}
}

// releaseStep returns the next step to release the lease. What was read is acted on at once. No callback of a term may
// be running.
func (s leaseState) releaseStep(now deadline.Instant) step {
	switch {
	case !s.writeSent, s.writesKnown && !s.holdsRecord() && !s.writeInFlight():
		return step{do: doFinish}
	case !s.writesKnown && now.Mono < s.next:
		return step{do: doRest, at: s.next}
	case !s.writesKnown:
		return step{do: doGet}
	case !s.found:
		return step{do: doCreate, lease: Lease{LeaseDuration: s.duration, AcquireTime: storedTime(now),
			RenewTime:         storedTime(now),
			LeaderTransitions: s.last}}
	}
	l := s.record
	l.HolderIdentity, l.HolderInstance, l.RenewTime = "", "", storedTime(now)
	return step{do: doUpdate, lease: l}
}

// writeInFlight reports whether an own write may still be carried out, as far as was read. Such a write took the
// lease when it was vacant, and is refused as soon as another write is carried out.
func (s leaseState) writeInFlight() bool {
	return s.unanswered && s.record.Version == s.replacedVersion
}

// storedTime returns an instant with the precision that every store keeps.
func storedTime(now deadline.Instant) time.Time {
	return time.Unix(0, now.Wall).UTC().Truncate(time.Microsecond)
}

// withRequestSent returns the state while a request is in flight.
func (s leaseState) withRequestSent(do action) leaseState {
	if do == doCreate || do == doUpdate {
		s.writesKnown, s.writeSent, s.unanswered, s.replacedVersion = false, true, true, s.record.Version
	}
	return s
}

// withRead returns the state after a read that was answered now.
func (s leaseState) withRead(record Lease, found bool, now deadline.Instant) leaseState {
	s = s.withRecord(record, found, now)
	switch {
	case s.leading && s.holdsRecord() && record.LeaderTransitions == s.token:
		s.next = now.Mono // read because a request had failed: renew
	case s.leading:
		s = s.withTermEnded()
	default:
		s.next = now.Mono + int64(s.period)
	}
	return s
}

// withWrite returns the state after record was written by a request that was sent and answered at these
// instants.
func (s leaseState) withWrite(record Lease, sent, answered deadline.Instant) leaseState {
	s = s.withRecord(record, true, answered)
	s.unanswered = false
	s.next = sent.Mono + int64(s.period)
	switch {
	case s.leading:
		s.claim = s.claim.OnRenewal(sent, answered)
	case s.holdsRecord():
		s.claim, s.token = deadline.NewClaim(sent, s.duration), record.LeaderTransitions
		s.leading = s.claim.Valid(answered)
	}
	return s
}

func (s leaseState) withRecord(record Lease, found bool, now deadline.Instant) leaseState {
	if found != s.found || record.Version != s.record.Version {
		s.since = now
	}
	s.record, s.found, s.writesKnown = record, found, true
	s.last = max(s.last, record.LeaderTransitions)
	return s
}

// withFailure returns the state after a request that failed now. After a conflict the record has changed and is
// read soon. A leader retries soon as well.
func (s leaseState) withFailure(conflict bool, now deadline.Instant) leaseState {
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

// withReadDue returns the state in which the record is read at once.
func (s leaseState) withReadDue(now deadline.Instant) leaseState {
	s.next = min(s.next, now.Mono)
	return s
}

const (
	// maxHintPause limits the pause between two reads that hints cause.
	maxHintPause = 100 * time.Millisecond
	// hintBurst is the number of pauses that hints may use up in advance.
	hintBurst = 4
)

// withHint returns the state after a hint of the store that the record may have changed. The record is read at once.
// After several hints in a short time it is read after a pause, so a store that sends hints without end does not make
// this elector read without end. A leader renews and does not read.
func (s leaseState) withHint(now deadline.Instant) leaseState {
	pause := int64(min(s.period/10, maxHintPause))
	due := max(now.Mono, s.hintsSpent-hintBurst*pause)
	if !s.leading && due < s.next {
		s.next, s.hintsSpent = due, max(due, s.hintsSpent)+pause
	}
	return s
}

// withTermEnded returns the state after a term, while its callbacks run; returned, after they have returned.
func (s leaseState) withTermEnded() leaseState {
	s.leading, s.working = false, true
	return s
}

func (s leaseState) withCallbacksDone() leaseState {
	s.leading, s.working = false, false
	return s
}

// otherLeader returns the identity of the leader if it is another elector and known, otherwise "". It checks both
// clocks, because an elector that was suspended cannot know the leader.
func (s leaseState) otherLeader(now deadline.Instant) string {
	if !s.found || s.holdsRecord() || now.Reached(s.since.Add(s.takeoverDelay())) {
		return ""
	}
	return s.record.HolderIdentity
}
