// Package silence decides when a watcher accuses a member of silence, and when it removes the member. It is a state
// machine without clock, goroutine or I/O; package crash carries out its actions.
//
//	             silent for long                   etcd confirmed
//	listening ──────────────────► accusing ──────────────────────► waiting ──(long enough)──► removing ──► over
//	   ▲                             │       a heartbeat arrived      │                          │
//	   │                             ▼                                ▼                          │
//	   │◄──── etcd confirmed ──── withdrawing ◄───────────────────────┘                          │
//	   └───────────────────────────── refuted: let it rest ──────────────────────────────────────┘
//
// A member arms its watchers, and only an armed one accuses. While it listens it acknowledges each heartbeat. By that
// it promises not to remove the member for a time that is longer, by the rates of two clocks, than the member relies on
// it. In all other phases it acknowledges nothing. It listens again only when etcd has confirmed that no removal can
// follow, because its accusation is gone. So of a member that is removed, no acknowledgement and no read counts any
// more (see deadline.Proofs). The member refutes an accusation by deleting it, and the removal compares it.
//
// Not promised: a silent process need not be dead. It may continue after its removal, and then learns of that.
package silence

import (
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/etcd/deadline"
)

const (
	// maxCounted is the longest time that one check adds to the silence. If more time has passed, this process stood
	// still, and may have unread heartbeats.
	maxCounted = 150 * time.Millisecond
	// rest is the time for which a member that refuted is not accused again. Each further refutation in a row doubles
	// it, up to maxRest.
	rest, maxRest = time.Second, time.Minute
)

// Phase is the progress of a judge.
type Phase int

// The phases.
const (
	Listening   Phase = iota // heartbeats are acknowledged
	Accusing                 // the accusation is being written
	Waiting                  // etcd has the accusation, and the member may refute it
	Removing                 // the removal was sent
	Withdrawing              // the accusation is being deleted
	Over                     // the member is gone
)

// String returns the phase's name.
func (p Phase) String() string {
	return [...]string{"listening", "accusing", "waiting", "removing", "withdrawing", "over"}[p]
}

// Judge is the record of one watcher about one member, by both incarnations. It is a value; all times are those of the
// watcher's monotonic clock. The zero value belongs to a watcher that is not armed.
type Judge struct {
	phase    Phase
	arming   uint64              // the newest by which the watcher is armed; 0 if it is not
	released bool                // it is armed no more, whatever heartbeats still arrive
	times    deadline.ProofTimes // the longest that the member has named
	acked    uint64              // number of the last heartbeat of this arming that was acknowledged
	receipt  time.Duration       // when the last acknowledged heartbeat was received
	checked  time.Duration       // the time of the last check
	silent   time.Duration       // the counted silence
	removeAt time.Duration       // while Waiting
	revision int64               // at which the accusation was created, while Waiting and Removing
	rests    int                 // refutations in a row
	restsTo  time.Duration       // no accusation before
}

// Arming returns the newest number by which the watcher is armed, 0 if it is not.
func (j *Judge) Arming() uint64 { return j.arming }

// Phase returns the present phase.
func (j *Judge) Phase() Phase { return j.phase }

// Revision returns the revision since which the accusation stands.
func (j *Judge) Revision() int64 { return j.revision }

// RemoveAt returns when the member may be removed, while Waiting.
func (j *Judge) RemoveAt() time.Duration { return j.removeAt }

// Silent returns the counted silence.
func (j *Judge) Silent() time.Duration { return j.silent }

// drift adds to a time that this process waits what two clocks can differ by: each runs at a rate that is wrong by one
// per cent at most.
func drift(d time.Duration) time.Duration { return d + d*203/10_000 }

// accuseAfter is the counted silence after which the watcher accuses. The removal must wait for longer after the last
// acknowledged heartbeat than after the accusation, so an earlier accusation would not make it earlier.
func (j *Judge) accuseAfter() time.Duration { return j.times.Acknowledged * 7 / 16 }

// OnBeat returns the judge after a heartbeat that arms, received at now, and whether to acknowledge it. It acknowledges
// nothing while the member has not heard the last acknowledgement: the way to the member may be cut, and each further
// one would put off the removal.
func (j Judge) OnBeat(now time.Duration, b heartbeat.Beat) (_ Judge, acknowledge bool) {
	if j.released || min(b.Times.Acknowledged, b.Times.Read) <= 0 {
		return j, false
	}
	if b.Arming > j.arming {
		j.arming, j.acked = b.Arming, 0
	}
	if b.Arming == j.arming && b.Heard < j.acked {
		return j, false
	}
	j.times.Acknowledged = max(j.times.Acknowledged, b.Times.Acknowledged)
	j.times.Read = max(j.times.Read, b.Times.Read)
	j.silent, j.checked = 0, now
	switch j.phase {
	case Listening:
		j.receipt = now
		if b.Arming == j.arming {
			j.acked = b.Number
		}
		return j, true
	case Accusing, Waiting:
		j.phase = Withdrawing
	}
	return j, false
}

// OnCheck returns the judge after a look at the clock. A change of the phase tells the caller what to do.
func (j Judge) OnCheck(now time.Duration) Judge {
	if j.arming == 0 {
		return j
	}
	j.silent += min(max(now-j.checked, 0), maxCounted)
	j.checked = now
	switch {
	case j.phase == Listening && j.silent >= j.accuseAfter() && now >= j.restsTo:
		j.phase = Accusing
	case j.phase == Waiting && now >= j.removeAt:
		j.phase = Removing
	}
	return j
}

// OnAccused returns the judge after etcd acknowledged the accusation, at now. It stands since that revision, perhaps
// by an earlier copy of the request. The removal waits for gracePeriod at least. With holdOff the watcher withdraws
// the accusation instead, because too many members stand accused.
func (j Judge) OnAccused(now time.Duration, revision int64, gracePeriod time.Duration, holdOff bool) Judge {
	switch {
	case j.phase != Accusing: // a heartbeat has arrived meanwhile
	case holdOff:
		j.phase = Withdrawing
		j = j.letRest(now)
	default:
		t := j.times
		j.phase, j.revision = Waiting, revision
		j.removeAt = max(j.receipt+drift(t.Acknowledged), now+max(drift(t.Read), gracePeriod))
	}
	return j
}

// OnWithdrawn returns the judge after etcd confirmed that the accusation is gone and the member is registered.
func (j Judge) OnWithdrawn() Judge {
	if j.phase == Withdrawing {
		j = j.listen()
	}
	return j
}

// OnRefuted returns the judge after etcd refused the removal, because the accusation no longer stands.
func (j Judge) OnRefuted(now time.Duration) Judge {
	if j.phase == Removing {
		j = j.listen().letRest(now)
	}
	return j
}

// OnGone returns the judge after the member was removed, or is no longer registered.
func (j Judge) OnGone() Judge {
	j.phase = Over
	return j
}

// OnGiveUp returns the judge after the watcher found that it may not accuse or remove at present. Nothing was sent, or
// the accusation must be withdrawn.
func (j Judge) OnGiveUp() Judge {
	switch j.phase {
	case Accusing, Waiting, Removing:
		j.phase = Withdrawing
	}
	return j
}

// CanRelease reports whether the watcher can say now that it does not accuse.
func (j *Judge) CanRelease() bool { return j.phase == Listening || j.phase == Over }

// OnRelease returns the judge of a watcher that is about to tell the member that it does not accuse any more. It is
// never armed again, not even by a stream that has not armed it yet: the goodbye on that releases what the member arms
// before it arrives. Another stream has another judge.
func (j Judge) OnRelease() Judge { return Judge{released: true} }

// listen begins to listen anew.
func (j Judge) listen() Judge {
	j.phase, j.silent, j.revision = Listening, 0, 0
	return j
}

// letRest leaves a living member to its lease for a while, longer each time in a row.
func (j Judge) letRest(now time.Duration) Judge {
	if j.restsTo > 0 && now-j.restsTo > maxRest {
		j.rests = 0
	}
	j.restsTo = now + backoff.Policy{First: rest, Last: maxRest}.Delay(j.rests+1, backoff.NoJitter)
	j.rests++
	return j
}
