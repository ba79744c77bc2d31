package peer

import (
	"sync"
	"time"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/etcd/deadline"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// SetArmer makes this node send the Armer's heartbeats to watchers that acknowledge them. Only members that have
// proved by their signature that they may watch this node receive them: see SetRoster. SetArmer may be called after
// Start; watchers that are connected already are armed at their next heartbeat then.
func (n *Node) SetArmer(a heartbeat.Armer) { n.armer.Store(&a) }

// maxProofTime limits the times that a watcher accepts.
const maxProofTime = time.Hour

// beatMessage returns the message for a heartbeat, or nil for one that does not arm. The time-out is rounded up,
// because a watcher may wait longer than the watched member expects, but never shorter.
func beatMessage(b heartbeat.Beat) *nodepb.Beat {
	if !b.Arms() {
		return nil
	}
	return &nodepb.Beat{Number: b.Number, Arming: b.Arming, Watched: b.Watched, Watcher: b.Watcher,
		AcknowledgedMs: ceilMilliseconds(b.Times.Acknowledged), ReadMs: ceilMilliseconds(b.Times.Read), Heard: b.Heard}
}

func ceilMilliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// parseBeat returns the heartbeat in a message. Ok reports whether it arms and is well-formed.
func parseBeat(m *nodepb.Beat) (b heartbeat.Beat, ok bool) {
	shorter, longer := min(m.GetAcknowledgedMs(), m.GetReadMs()), max(m.GetAcknowledgedMs(), m.GetReadMs())
	if m.GetNumber() == 0 || m.GetArming() == 0 || m.GetWatched() <= 0 || m.GetWatcher() <= 0 || shorter <= 0 ||
		longer > maxProofTime.Milliseconds() {
		return heartbeat.Beat{}, false
	}
	return heartbeat.Beat{Number: m.GetNumber(), Arming: m.GetArming(), Watched: m.GetWatched(), Watcher: m.GetWatcher(),
		Times: deadline.ProofTimes{Acknowledged: time.Duration(m.GetAcknowledgedMs()) * time.Millisecond,
			Read: time.Duration(m.GetReadMs()) * time.Millisecond}, Heard: m.GetHeard()}, true
}

// armedStream is the part of a watcher's stream that the Armer sees. One goroutine sends heartbeats to the watcher and
// calls nextBeat; another receives from it and calls the other methods.
type armedStream struct {
	number uint64 // of the stream, from 1

	// mu is held while NextBeat runs, so that none runs after goodbye has called SaidGoodbye. No other code of this
	// package waits for mu, so the Armer may use the node meanwhile.
	mu    sync.Mutex
	armer heartbeat.Armer // nil until the stream is passed to it
	over  bool            // it arms no more: the watcher sends no more, or a newer stream of it arms it
}

// nextBeat asks the Armer for the next heartbeat of the stream. After goodbye or supersede that is an empty one.
func (s *armedStream) nextBeat(a heartbeat.Armer, instance string) (b heartbeat.Beat, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return heartbeat.Beat{}, 0
	}
	s.armer = a
	return a.NextBeat(s.number, instance)
}

// supersede ends the arming of the watcher by this stream, because a newer stream of the same process is to arm it. The
// watcher has left this one, though the connection may stand here for some time yet, and knows of no arming by it.
func (s *armedStream) supersede() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// acknowledged reports an acknowledgement to the Armer, unless the watcher was never armed or the number is 0.
func (s *armedStream) acknowledged(number uint64) {
	s.mu.Lock()
	a := s.armer
	s.mu.Unlock()
	if a != nil && number != 0 {
		a.Acknowledged(s.number, number)
	}
}

// goodbye reports the watcher's goodbye to the Armer, unless the watcher was never armed.
func (s *armedStream) goodbye() {
	s.mu.Lock()
	s.over = true // from now on the Armer is asked for no more heartbeats of the stream
	a := s.armer
	s.mu.Unlock()
	if a != nil {
		a.SaidGoodbye(s.number)
	}
}

// armerOf returns the Armer if it may arm the watcher now, and nil otherwise. A watcher whose record this node does not
// know yet may be armed later.
func (n *Node) armerOf(w *watcher) heartbeat.Armer {
	if a := n.armer.Load(); a != nil && w.mayArm && n.watcherProved(w) && w.hasSigned() {
		return *a
	}
	return nil
}

// removalReported reports a removal to the Armer, if there is one, and the watcher has proved its membership.
func (n *Node) removalReported(w *watcher, revision int64) {
	if a := n.armer.Load(); a != nil && w.hasSigned() && n.watcherProved(w) {
		(*a).RemovalReported(revision)
	}
}

// nextHeartbeat returns the heartbeat to send to a watcher now, and the time until the one after it.
func (n *Node) nextHeartbeat(w *watcher) (m *nodepb.WatchResponse, next time.Duration) {
	m = &nodepb.WatchResponse{}
	if a := n.armerOf(w); a != nil {
		if !w.newest {
			w.newest = true
			n.watchers.supersedeOlder(w)
		}
		var b heartbeat.Beat
		b, next = w.armed.nextBeat(a, w.instance)
		m.Beat = beatMessage(b)
	}
	// The watcher counts any heartbeats, so they must not be rarer than without an Armer.
	if next <= 0 || next > heartbeat.SendEvery {
		next = heartbeat.SendEvery
	}
	return m, next
}
