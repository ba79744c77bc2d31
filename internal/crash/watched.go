package crash

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// openTimeout bounds one attempt to open a watch. Silence is no evidence, however long it lasts.
	openTimeout = 2 * time.Second
	// requestTimeout bounds one request to etcd. An accusation that takes longer is out of date.
	requestTimeout = 2 * time.Second
)

// leaveTimeout bounds the time for which Stop waits until the watched members have received the goodbye.
// dropTimeout does so when this node only changes the members that it watches: then there is more time, and a
// lost goodbye would alarm the member.
const leaveTimeout, dropTimeout = 200 * time.Millisecond, 5 * time.Second

// maxRemembered limits the number of removed processes that are remembered, to recognize one that lives when
// it registers again.
const maxRemembered = 1000

// briefWatch is the age below which a watch that breaks counts as flapping. A watch that is cut again and again
// is reopened less and less often.
const briefWatch = time.Second

// watchedMember watches one member in its own goroutine, and carries out the actions that suspicion.Case returns.
type watchedMember struct {
	d           *Detector
	address     string
	incarnation int64
	removed     int // number of earlier removals of its process: see rememberRemoval
	// keptCtx ends when this node is to watch other members instead: see drop.
	keptCtx context.Context
	drop    context.CancelFunc

	// Guarded by the detector's mu:
	unwanted      bool          // this node is to watch other members instead
	unwantedSince time.Duration // by the clock of the silence

	suspected  atomic.Bool      // it does not count as watched
	heartbeats heartbeatTracker // tracks its silence
	silence    silenceAccuser   // accuses it of silence

	// Used by run alone:
	member             *state.Member // the newest known record of this incarnation
	watch              Watch
	armingBefore       uint64 // the newest arming when it was about to be opened
	mayBeArmed         bool   // the member may count on this process by a watch that has ended: see oweGoodbye
	opened             time.Time
	firstSign          time.Time // when the first sign of the present suspicion was seen
	session            *etcdsession.Session
	accuser            Accuser
	accusationRevision int64         // revision of the accusation
	requestTime        time.Duration // time of one request when it was written: see Accuser.leastRequestTime
	evidence           string

	acknowledged time.Time // when etcd acknowledged it
	gracePeriod  time.Duration
}

// newWatchedMember begins a case. Calling its drop ends the case as soon as that can be dropped: see Case.CanDrop.
func newWatchedMember(d *Detector, m *state.Member, removed int) *watchedMember {
	w := &watchedMember{d: d, address: m.Address, incarnation: m.Incarnation, removed: removed, member: m}
	w.keptCtx, w.drop = context.WithCancel(d.ctx)
	w.silence.w, w.silence.idle = w, wait.NewSignal()
	return w
}

// run carries out actions and passes the resulting events to the case, until the case is over or dropped.
func (w *watchedMember) run() {
	defer w.drop()
	w.d.stopOwedGoodbye(w)
	defer w.sayGoodbye()
	c, a := suspicion.BeginCase(w.removed, w.d.cfg.Settings)
	for a.Do != suspicion.Nothing {
		ctx := w.d.ctx
		if c.CanDrop() {
			ctx = w.keptCtx
		}
		e, ok := w.performAction(ctx, a)
		if !ok {
			return
		}
		c, a = c.OnEvent(e, w.d.cfg.Settings)
		if c.Unreachable() {
			w.d.log.Warn("cannot watch a member: if its process dies, its lease must run out; check the network, its "+
				"advertise address, and Config.DialOptions if nodes serve TLS",
				"address", w.address)
		}
		if w.suspected.Swap(!c.CountsAsWatched()) == c.CountsAsWatched() {
			w.d.wake.Send()
		}
	}
	w.awaitGone()
}

// awaitGone waits until the snapshot shows the removal that etcd confirmed. Otherwise another case about the
// same incarnation would begin.
func (w *watchedMember) awaitGone() {
	_, _ = w.d.cfg.Mirror.Wait(w.keptCtx, func(s *state.Snapshot) bool {
		m := s.Member(w.address)
		return m == nil || m.Incarnation != w.incarnation
	}) // it ends with the case at the latest
}

// performAction carries out a and returns the resulting event; false means that ctx ended first.
func (w *watchedMember) performAction(ctx context.Context, a suspicion.Action) (suspicion.Event, bool) {
	if a.Do == suspicion.Wait {
		return w.awaitRefutation(ctx, a.After), ctx.Err() == nil
	}
	if a.After > 0 && !wait.For(ctx, a.After) {
		return 0, false
	}
	var e suspicion.Event
	switch a.Do {
	case suspicion.Open:
		e = w.openWatch(ctx)
	case suspicion.Listen:
		e = w.listenToWatch(ctx)
	case suspicion.Accuse:
		e = w.accuseMember(ctx, a.Evidence)
	case suspicion.Remove:
		e = w.removeMember(ctx)
	}
	return e, ctx.Err() == nil
}

func (w *watchedMember) openWatch(ctx context.Context) suspicion.Event {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	// Its record may have been rewritten.
	if m := w.d.cfg.Mirror.Snapshot().Member(w.address); m != nil && m.Incarnation == w.incarnation {
		w.member = m
	}
	w.armingBefore = w.silence.arming()
	heard := w.heardBeat
	if w.d.armer.refused.Load() {
		heard = nil
	}
	watch, err := w.d.cfg.Dialer.Watch(ctx, w.address, w.member.InstanceID, heard)
	switch {
	case errors.Is(err, ErrRefused):
		w.recordSign()
		return suspicion.Refused
	case errors.Is(err, ErrOtherInstance):
		w.recordSign()
		return suspicion.Other
	case err != nil:
		w.d.log.Debug("could not watch a member", "address", w.address, "error", err)
		return suspicion.Silence
	}
	w.watch, w.opened, w.firstSign = watch, time.Now(), time.Time{}
	w.d.forgetRemovals(watch.Instance())
	w.heartbeats.watchOpened(watch)
	w.heartbeats.reportRemoval(w.d.removal.Load())
	w.d.watching.Add(1)
	w.d.log.Debug("watching a member", "address", w.address)
	return suspicion.Opened
}

// recordSign records when the first sign was seen, for the log.
func (w *watchedMember) recordSign() {
	if w.firstSign.IsZero() {
		w.firstSign = time.Now()
	}
}

func (w *watchedMember) listenToWatch(ctx context.Context) suspicion.Event {
	err := w.watch.Wait(ctx)
	if ctx.Err() == nil {
		w.closeWatch(ctx)
	}
	if err == nil {
		w.heartbeats.stopListening()
		return suspicion.Goodbye
	}
	w.recordSign()
	if time.Since(w.opened) < briefWatch {
		return suspicion.Flapped
	}
	return suspicion.Broke
}

// closeWatch frees the watch, after a goodbye if ctx has not ended.
func (w *watchedMember) closeWatch(ctx context.Context) {
	if w.watch == nil {
		return
	}
	switch received := w.watch.Close(ctx); {
	case !received:
		// Heartbeats that arm this process may have been lost.
		w.mayBeArmed = w.mayBeArmed || w.watch.Heartbeats()
	case w.silence.arming() > w.armingBefore:
		w.mayBeArmed = false // this watch has replaced the arming of earlier ones, and the goodbye has released it
	}
	w.watch = nil
	w.d.watching.Add(-1)
}

// sayGoodbye ends the watch. The member learns that this process does not accuse it any more.
func (w *watchedMember) sayGoodbye() {
	ctx, cancel := context.WithTimeout(w.d.goodbyeCtx, dropTimeout)
	defer cancel()
	if !w.silence.release(ctx) {
		cancel() // a goodbye would say that it does not accuse
	}
	w.closeWatch(ctx)
	w.silence.awaitIdle(w.d.ctx)
	if w.mayBeArmed {
		w.d.oweGoodbye(w)
	}
}

func (w *watchedMember) accuseMember(ctx context.Context, evidence string) suspicion.Event {
	s := w.d.cfg.Keeper.Current()
	if s == nil || !s.Valid() {
		return suspicion.NotAccused // a member that is itself cut off cannot judge others
	}
	if suspicion.LeftToLease(w.member) {
		return suspicion.NotAccused
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer context.AfterFunc(s.Context(), cancel)()
	w.evidence, w.session = evidence, s
	w.accuser = Accuser{Client: w.d.cfg.Client, Keys: w.d.cfg.Mirror.Snapshot().Keys, ID: w.d.cfg.InstanceID,
		Lease:    s.ID(),
		Snapshot: w.d.cfg.Mirror.Snapshot}
	began := time.Now()
	written, err := w.accuser.writeAccusation(ctx, w.member, evidence)
	w.requestTime, w.acknowledged = time.Since(began), time.Now()
	switch {
	case errors.Is(err, ErrChanged):
		return suspicion.Unregistered
	case err != nil:
		w.d.log.Warn("could not accuse a member, looking at it again", "address", w.address, "evidence", evidence,
			"error", err)
		return suspicion.NotAccused
	}
	w.accusationRevision = written
	w.d.accusations.Add(1)
	w.requestTime = w.accuser.leastRequestTime(ctx, w.member, w.d.cfg.Settings.GracePeriod, w.requestTime)
	w.gracePeriod = suspicion.GracePeriod(w.d.cfg.Settings.GracePeriod, w.requestTime, w.member)
	w.d.log.Info("accused a member: it is removed unless it answers", "address", w.address,
		"evidence", evidence, "grace_period", w.gracePeriod.String(), event.Field, string(event.NodeAccused))
	return suspicion.Accused
}

// awaitRefutation waits for the rest of the grace period. It returns early if the snapshot shows that the accusation is
// gone.
func (w *watchedMember) awaitRefutation(ctx context.Context, gracePeriod time.Duration) suspicion.Event {
	gracePeriod = suspicion.GracePeriod(gracePeriod, w.requestTime, w.member)
	ctx, cancel := context.WithDeadline(ctx, w.acknowledged.Add(gracePeriod))
	defer cancel()
	s, err := w.d.cfg.Mirror.Wait(ctx, func(s *state.Snapshot) bool {
		return s.Revision >= w.accusationRevision && !s.AccusationStands(w.address, w.accuser.ID, w.accusationRevision)
	})
	switch {
	case err != nil:
		return suspicion.GracePeriodOver
	case s.Member(w.address) == nil || s.Member(w.address).Incarnation != w.incarnation:
		return suspicion.Unregistered
	case !w.session.Valid():
		return suspicion.NotRemoved
	}
	w.logRefuted()
	return suspicion.Refuted
}

func (w *watchedMember) logRefuted() {
	w.d.refuted.Add(1)
	w.d.log.Log(refutedLevel(w.d.cfg.Mirror.Snapshot(), w.address),
		"a member refuted an accusation: it lives, but its address does not answer here; check the network and its "+
			"advertise address",
		"address", w.address, "evidence", w.evidence, event.Field, string(event.NodeRefuted))
}

// refutedLevel returns the level for a log line about a refutation. A stopping member closes its port before it
// leaves, which is normal.
func refutedLevel(s *state.Snapshot, address string) hclog.Level {
	if m := s.Member(address); m != nil && m.Stopping {
		return hclog.Debug
	}
	return hclog.Warn
}

// recordRemoval counts and logs that this node has removed the member.
func (w *watchedMember) recordRemoval(message string, details ...any) {
	w.d.removals.Add(1)
	w.d.log.Warn(message, append(details, "address", w.address, event.Field, string(event.NodeRemoved))...)
}

// rememberRemoval counts a removal on the evidence that a process is gone. If the process registers again, the evidence
// was wrong, and it is left alone for longer each time in a row. A process that was removed for its silence stood still
// indeed, and may do so again at any time.
func (d *Detector) rememberRemoval(instance string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.removed) >= maxRemembered {
		clear(d.removed)
	}
	d.removed[instance]++
}

// forgetRemovals forgets the removals of a process that answers now.
func (d *Detector) forgetRemovals(instance string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.removed, instance)
}

func (w *watchedMember) removeMember(ctx context.Context) suspicion.Event {
	if suspicion.LeftToLease(w.member) { // as its record says that was written since the accusation
		return suspicion.NotRemoved
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := w.accuser.removeAccused(ctx, w.member, w.accusationRevision)
	switch {
	case err == nil:
		w.d.lastGracePeriod.Store(int64(w.gracePeriod))
		w.d.rememberRemoval(w.member.InstanceID)
		w.recordRemoval("removed a member whose process is gone", "evidence", w.evidence,
			"after", time.Since(w.firstSign).Round(time.Millisecond).String(), "grace_period", w.gracePeriod.String())
		return suspicion.Removed
	case errors.Is(err, ErrChanged):
		return suspicion.Unregistered
	case errors.Is(err, ErrRefuted) && !w.session.Valid():
		// The accusation was deleted with this node's own lease.
	case errors.Is(err, ErrRefuted):
		w.logRefuted()
		return suspicion.Refuted
	}
	w.d.log.Warn("could not remove a member, looking at it again", "address", w.address, "error", err)
	return suspicion.NotRemoved
}
