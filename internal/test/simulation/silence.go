package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/test/schedule"
)

const (
	// usualDrift and largestDrift are the largest drifts of clocks, in parts per million. A session's margin covers
	// the largest.
	usualDrift, largestDrift = 3000, 10000
)

// drawSilence draws in half of the schedules with crash detection that members accuse others of silence, and after
// which time. A third of those have the fastest and slowest clocks.
func (w *world) drawSilence() {
	w.drift = usualDrift
	r := schedule.NewRand(w.Seed, "silence")
	if !w.crashDetection || r.IntN(2) == 0 {
		return
	}
	w.ttl = schedule.Pick(r, 5*time.Second, 10*time.Second, 10*time.Second, 20*time.Second)
	w.silence = schedule.Pick(r, 3500*time.Millisecond, 2*time.Second, 5*time.Second)
	for 2*w.silence > w.ttl {
		w.silence = 2 * time.Second
	}
	if r.IntN(3) == 0 {
		w.drift = largestDrift
	}
}

// proofByBeats returns the time for which acknowledged heartbeats prove a member's claims, from their sending.
func (w *world) proofByBeats() time.Duration { return deadline.ProofTimesOf(w.silence).Acknowledged }

// proofByRead returns the time for which a read of etcd does, from its sending.
func (w *world) proofByRead() time.Duration { return deadline.ProofTimesOf(w.silence).Read }

// accusedAfter returns the silence after which a watcher accuses a member.
func (w *world) accusedAfter() time.Duration { return w.proofByBeats() * 7 / 16 }

// waitFactor is the least ratio, in ten thousandths, of a watcher's waiting times to the times of the proofs.
const waitFactor = 10203

// longestTrueTime returns the longest true time that a clock can take to show d, plus a millisecond.
func (w *world) longestTrueTime(d time.Duration) time.Duration {
	return d + d*w.drift/(1e6-w.drift) + time.Millisecond
}

// shortestTrueTime returns the shortest true time that a clock can take to show d, less a millisecond.
func (w *world) shortestTrueTime(d time.Duration) time.Duration {
	return d - d*w.drift/(1e6+w.drift) - time.Millisecond
}
