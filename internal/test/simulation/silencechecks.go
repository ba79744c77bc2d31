package simulation

import (
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/state"
)

// silenceState holds the checks' knowledge of heartbeats, and of accusations of silence.
type silenceState struct {
	receipts  map[watchPair]receipt         // of the last heartbeat that the watcher acknowledged
	members   map[int64]*process            // by incarnation
	accused   map[string]*silenceAccusation // the last one, by key
	withdrawn map[string]time.Duration      // when etcd last executed a withdrawal, by accusationKey
	last      *host                         // accused last
	removed   map[int64]time.Duration       // by lease of a member that was removed for silence: when
}

// receipt is the receipt of a heartbeat by a watcher.
type receipt struct {
	at    time.Duration
	stood standstills // of the watcher, until then
}

// standstills are the times that a host's process has stood still.
type standstills struct {
	total time.Duration
	times int
	since time.Duration // of the one in progress, if any
	now   bool          // there is one
}

// standstills returns the standstills with the one in progress. The caller holds the checks' mu.
func (h *host) standstills() standstills {
	s := h.stood
	if s.now {
		s.total += h.w.Now() - s.since
	}
	return s
}

// ranSince returns the time that the watcher has run since a receipt, as far as it can know: it may take the begin of
// each standstill for time in which it ran.
func (r receipt) ranSince(watcher *host) time.Duration {
	s := watcher.standstills()
	return watcher.w.Now() - r.at - (s.total - r.stood.total) + time.Duration(s.times-r.stood.times)*maxCheck
}

// watchPair is a watched process and one that watches it.
type watchPair struct{ watched, watcher *process }

// silenceAccusation is the last accusation of silence of a watcher against an address.
type silenceAccusation struct {
	executed, answered time.Duration // -1 if it is not
}

// silenceFacts holds the checks' knowledge of one process in a schedule with accusations of silence.
type silenceFacts struct {
	refuted     time.Duration // when it last refuted an accusation; -1 if never
	lostWatcher time.Duration // when it last lost a watcher; -1 if never
	invalid     time.Duration // since when its session is not valid although nothing hinders it; -1 if that is not so
}

func newSilenceState() silenceState {
	return silenceState{receipts: map[watchPair]receipt{}, members: map[int64]*process{},
		accused: map[string]*silenceAccusation{}, withdrawn: map[string]time.Duration{}, removed: map[int64]time.Duration{}}
}

// recordReceipt is called when a watcher has accepted a heartbeat, which it acknowledges.
func (c *checks) recordReceipt(s *watchStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.Counts.Count(BeatAcknowledged)
	c.receipts[watchPair{s.to, s.from}] = receipt{c.w.Now(), s.from.host.standstills()}
}

// lastReceipt returns the time at which a watcher of a process last accepted a heartbeat of it.
func (c *checks) lastReceipt(p *process) (last time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pair, r := range c.receipts {
		if pair.watched == p {
			last, ok = max(last, r.at), true
		}
	}
	return last, ok
}

// lastAccusedSilent returns the host that was last accused of silence, or nil.
func (c *checks) lastAccusedSilent() *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// checkSilenceSent checks every accusation and removal for silence when it is sent: only an armed watcher may accuse,
// and neither may come too early, whatever the clocks show.
func (c *checks) checkSilenceSent(p *process, k requestKind, request any) {
	r, _ := request.(*pb.TxnRequest)
	if k != requestAccuseSilent && k != requestRemoveSilent {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	address, what, least := "", "accuses", c.w.accusedAfter()-maxCheck
	if k == requestAccuseSilent {
		address, _, _ = c.w.findSilentPut(r)
		c.accused[accusationKey(address, p)] = &silenceAccusation{executed: -1, answered: -1}
	} else {
		address, what, least = c.w.findDelete(r, state.KindNode).Address, "removes", c.w.proofByBeats()*waitFactor/10000
		c.checkSilentRemovalSent(p, address, r)
	}
	incarnation := guardedRevision(r, c.w.keys.Node(address))
	if incarnation == 0 || guardedRevision(r, c.w.keys.Node(p.host.address)) == 0 {
		c.fail("P4", "%s %s %s without the guards of both members", p.id, what, address)
		return
	}
	watched := c.members[incarnation]
	if watched == nil {
		return // etcd refuses it
	}
	last, armed := c.receipts[watchPair{watched, p}]
	switch silent := c.w.Now() - last.at; {
	case !armed:
		c.fail("P4", "%s %s %s for silence, which never armed it", p.id, what, watched.id)
	case k == requestAccuseSilent && last.ranSince(p.host) < c.w.shortestTrueTime(least):
		c.fail("P4", "%s %s %s for a silence of %v, in which it ran for %v", p.id, what, watched.id, silent,
			last.ranSince(p.host))
	case silent < c.w.shortestTrueTime(least):
		c.fail("P4", "%s %s %s %v after it has acknowledged a heartbeat", p.id, what, watched.id, silent)
	}
}

// checkSilentRemovalSent checks that a removal leaves the accused the time for a read, and names the accusation.
func (c *checks) checkSilentRemovalSent(p *process, address string, r *pb.TxnRequest) {
	if !c.w.guardsAccusation(r, address, p.id) {
		c.fail("P4", "%s removes %s for silence without the guard of its accusation", p.id, address)
	}
	a := c.accused[accusationKey(address, p)]
	if a == nil || a.answered < 0 {
		c.fail("P4", "%s removes %s for silence, and knows of no accusation", p.id, address)
	} else if waited := c.w.Now() - a.answered; waited < c.w.shortestTrueTime(c.w.proofByRead()*waitFactor/10000) {
		c.fail("P4", "%s removes %s %v after it has accused it of silence", p.id, address, waited)
	}
}

// maxCheck limits the time between two checks of a watcher. Its first check after a heartbeat counts the time since the
// check before the heartbeat.
const maxCheck = 150 * time.Millisecond

func accusationKey(address string, accuser *process) string { return address + "/" + accuser.id }

// checkSilenceExecuted is called with every request about silence that etcd has executed.
func (c *checks) checkSilenceExecuted(p *process, k requestKind, r *pb.TxnRequest, a *pb.TxnResponse) {
	if !a.Succeeded {
		return
	}
	switch k {
	case requestAccuseSilent:
		c.w.Counts.Count(SilenceAccused)
		address, _, _ := c.w.findSilentPut(r)
		c.last = c.w.hostAt(address)
		if a := c.accused[accusationKey(address, p)]; a != nil {
			a.executed = c.w.Now()
		}
	case requestWithdrawSilent:
		c.w.Counts.Count(SilenceWithdrawn)
		for _, op := range r.Success {
			if address, _, ok := c.w.parseSilentKey(string(op.GetRequestDeleteRange().GetKey())); ok {
				c.withdrawn[accusationKey(address, p)] = c.w.Now()
			}
		}
	case requestRefuteAll:
		for _, resp := range a.Responses {
			if resp.GetResponseDeleteRange().GetDeleted() > 0 {
				c.w.Counts.Count(SilenceRefuted)
				p.facts.refuted = c.w.Now()
			}
		}
	case requestRemoveSilent:
		c.checkSilentRemoval(p, r)
	case requestProofRead:
		c.w.Counts.Count(ProofRead)
	}
}

// checkSilentRemoval checks every removal for silence. A member that nothing hinders must have refuted the accusation;
// the claims of any other one are checked from this instant on.
func (c *checks) checkSilentRemoval(p *process, r *pb.TxnRequest) {
	address := c.w.findDelete(r, state.KindNode).Address
	incarnation := guardedRevision(r, c.w.keys.Node(address))
	for i := range c.losses {
		if t := &c.losses[i]; t.token == incarnation && t.at == c.w.Now() && !c.isTainted(incarnation) {
			c.removed[t.lease] = t.at
		}
	}
	for i := range c.losses {
		t := &c.losses[i]
		if _, ok := c.removed[t.lease]; ok && t.at == c.w.Now() && t.by == byRemoval {
			t.by = bySilence
		}
	}
	watched := c.livingProcess(address, incarnation)
	if watched == nil || watched == p {
		c.w.Counts.Count(SilentDeadRemoved)
		return
	}
	if s := watched.session(); s == nil || s.Err() != nil || int64(s.ID()) != watched.facts.lease {
		c.w.Counts.Count(SilentLostRemoved)
		return
	}
	c.w.Counts.Count(SilentLivingRemoved)
	a := c.accused[accusationKey(address, p)]
	if a == nil || a.executed < 0 || !watched.stopRequested && !watched.host.wasHindered(a.executed) &&
		watched.host.link.State().Denied != c.w.silentKeys() {
		c.fail("P4", "%s was removed for silence, though it lives and reaches etcd", watched.id)
	}
}

// removalOriginator returns the originator of another process's deletion of a key on a lease.
func (c *checks) removalOriginator(lease int64) originator {
	if _, ok := c.removed[lease]; ok {
		return bySilence
	}
	return byRemoval
}

// checkRemovedSilent checks that a process that was removed for silence claims nothing: its proofs must have ended
// before. It is never valid again on that session.
func (c *checks) checkRemovedSilent(x *claim) {
	if x.s == nil {
		return
	}
	if at, ok := c.removed[int64(x.s.ID())]; ok && (x.valid || x.token != 0) {
		c.fail("P1", "%s relies on its session (valid: %t, leads: %t), though it was removed for silence %v ago", x.p.id,
			x.valid, x.token != 0, c.w.Now()-at)
	}
}

// recordSilenceAnswer is called when an accuser learns that etcd has its accusation of silence.
func (c *checks) recordSilenceAnswer(p *process, request any) {
	r, _ := request.(*pb.TxnRequest)
	c.mu.Lock()
	defer c.mu.Unlock()
	address, _, _ := c.w.findSilentPut(r)
	if a := c.accused[accusationKey(address, p)]; a != nil {
		a.answered = c.w.Now()
	}
}

// checkLapse checks that nothing but a fault makes a session invalid. The proofs of a process that runs and reaches
// etcd last.
func (c *checks) checkLapse(x *claim) {
	f, w := &x.p.facts, c.w
	if w.silence == 0 || x.p.armer == nil {
		return
	}
	since := w.Now() - 2*w.proofByBeats()
	if x.s == nil || x.valid || x.s.Err() != nil || x.p.stopRequested || f.lease != int64(x.s.ID()) ||
		f.lostWatcher >= since || x.p.host.wasHindered(since) || x.p.host.wasDenied(since) ||
		!c.truth.keyExists(w.keys.Node(x.p.host.address), f.incarnation) || c.isTainted(f.incarnation) ||
		c.findLoss(x.p, x.s, f.incarnation) != nil {
		f.invalid = -1
		return
	}
	if f.invalid < 0 {
		f.invalid = w.Now()
		w.After(w.proofByBeats(), func() {}) // its claims are checked at that time
	}
	if w.Now()-f.invalid >= w.proofByBeats() {
		c.fail("P3", "%s has not been valid for %v, and nothing hinders it", x.p.id, w.Now()-f.invalid)
	}
}

// wasDenied reports whether etcd has denied the host's candidacy since then. The lease may be lost for that.
func (h *host) wasDenied(since time.Duration) bool {
	return h.link.State().Denied != "" || h.allowed > 0 && h.allowed >= since
}

// silenceDeviation returns the first deviation from a recovered cluster that concerns silence, or "" if there is none.
// No accusation may be left, every watcher must be armed, and no process must be armed that watches no more.
func (w *world) silenceDeviation() string {
	for _, kv := range w.Etcd.Keys(w.keys.Prefix()) {
		if strings.HasPrefix(string(kv.Key), w.silentKeys()) {
			return "an accusation of silence is left: " + string(kv.Key)
		}
	}
	if w.silence == 0 {
		return ""
	}
	for _, h := range w.hosts {
		if p := h.process; p != nil && !p.stopRequested && p.session().Proofs().Armed() > w.countWatchers(p) {
			return fmt.Sprintf("%s counts on %d watchers, and has %d", p.id, p.session().Proofs().Armed(), w.countWatchers(p))
		}
	}
	w.checks.mu.Lock()
	defer w.checks.mu.Unlock()
	for _, h := range w.hosts {
		p := h.process
		if p == nil || p.stopRequested || h.roundTrips(slowestReads) > w.proofByRead() {
			continue // it stops, or is so far from etcd that it arms none
		}
		for _, s := range p.node.watchers {
			last, armed := w.checks.receipts[watchPair{p, s.from}]
			if s.arms() && !s.goodbye && !s.from.stopRequested && (!armed || w.Now()-last.at > w.proofByBeats()/2) {
				return p.id + " has not armed its watcher " + s.from.id
			}
		}
	}
	return ""
}

// countWatchers returns the number of processes that watch one, or have stopped doing so because they end.
func (w *world) countWatchers(p *process) (n int) {
	for _, h := range w.hosts {
		if x := h.process; x != nil && (x.stopRequested || x.node.watchesProcess(p)) {
			n++
		}
	}
	return n
}

// slowestReads is the number of round trips to etcd that a proof by a read lasts at least; a member that is farther
// arms no watcher.
const slowestReads = 5

// roundTrips returns a time that n round trips to etcd certainly take at most if nothing delays them.
func (h *host) roundTrips(n time.Duration) time.Duration {
	return n * 2 * (h.link.Distance + 5*time.Millisecond)
}
