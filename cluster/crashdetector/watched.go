package crashdetector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/goverse/goverse/cluster/internal/suspicion"
	"github.com/goverse/goverse/cluster/state"
)

const (
	// openTimeout bounds one attempt to open a watch: silence is no evidence, however
	// long.
	openTimeout = 2 * time.Second
	// requestTimeout bounds one request to etcd. An accusation that takes longer says
	// little about the present.
	requestTimeout = 2 * time.Second
)

// watched is one member that is watched, in a goroutine of its own: it carries out
// what suspicion.Case asks for.
type watched struct {
	d      *Detector
	member *state.Member
	// kept ends when this node is to watch others instead: see drop.
	kept context.Context
	drop context.CancelFunc

	suspects atomic.Bool

	// of run
	watch    Watch
	broke    time.Time // when the first sign of the present suspicion was seen
	accuser  Accuser
	written  int64 // revision of the accusation
	evidence string
}

// newWatched begins a case. Calling its drop ends it at the next moment at which
// nothing of it stands in etcd.
func newWatched(d *Detector, m *state.Member) *watched {
	w := &watched{d: d, member: m}
	w.kept, w.drop = context.WithCancel(d.ctx)
	return w
}

// run goes from action to event to action until the case is over or given up.
func (w *watched) run() {
	defer w.drop()
	defer w.closeWatch()
	var c suspicion.Case
	settings := suspicion.Settings{Confirmations: w.d.cfg.Settings.Confirmations, Grace: w.d.cfg.Settings.Grace,
		Rest: w.d.cfg.Settings.Rest}
	a := suspicion.Action{Do: suspicion.Open}
	for a.Do != suspicion.Nothing {
		ctx := w.d.ctx
		if c.Interruptible() {
			ctx = w.kept
		}
		e, ok := w.do(ctx, a)
		if !ok {
			return
		}
		c, a = c.On(e, settings)
		if w.suspects.Swap(c.Suspects()) != c.Suspects() {
			w.d.lookAgain()
		}
	}
}

// do carries a out and returns what came of it; false: ctx ended first.
func (w *watched) do(ctx context.Context, a suspicion.Action) (suspicion.Event, bool) {
	if a.Do == suspicion.Wait {
		return w.await(ctx, a.After), ctx.Err() == nil
	}
	if a.After > 0 {
		timer := time.NewTimer(a.After)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return 0, false
		}
	}
	var e suspicion.Event
	switch a.Do {
	case suspicion.Open:
		e = w.open(ctx)
	case suspicion.Listen:
		e = w.listen(ctx)
	case suspicion.Accuse:
		e = w.accuse(ctx, a.Evidence)
	case suspicion.Remove:
		e = w.remove(ctx)
	}
	return e, ctx.Err() == nil
}

func (w *watched) open(ctx context.Context) suspicion.Event {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	watch, err := w.d.cfg.Dialer.Watch(ctx, w.member.Address)
	switch {
	case errors.Is(err, ErrRefused):
		w.sign()
		return suspicion.Refused
	case err != nil:
		w.d.log.Debug("could not watch a member", "address", w.member.Address, "error", err)
		return suspicion.Silence
	case watch.Instance() != w.member.InstanceID:
		watch.Close(ctx)
		w.sign()
		return suspicion.Other
	}
	w.watch, w.broke = watch, time.Time{}
	w.d.watching.Add(1)
	w.d.log.Debug("watching a member", "address", w.member.Address)
	return suspicion.Opened
}

// sign notes when the first sign was seen, for the log.
func (w *watched) sign() {
	if w.broke.IsZero() {
		w.broke = time.Now()
	}
}

func (w *watched) listen(ctx context.Context) suspicion.Event {
	err := w.watch.Wait(ctx)
	if ctx.Err() == nil {
		w.closeWatch()
	}
	if err == nil {
		return suspicion.Goodbye
	}
	w.sign()
	return suspicion.Broke
}

func (w *watched) closeWatch() {
	if w.watch != nil {
		w.d.mu.Lock()
		leave := w.d.leave
		w.d.mu.Unlock()
		w.watch.Close(leave)
		w.watch = nil
		w.d.watching.Add(-1)
	}
}

func (w *watched) accuse(ctx context.Context, evidence string) suspicion.Event {
	s := w.d.cfg.Keeper.Current()
	if s == nil || !s.Valid() {
		return suspicion.NotAccused // who is cut off itself is no judge
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer context.AfterFunc(s.Context(), cancel)()
	w.evidence = evidence
	w.accuser = Accuser{Client: w.d.cfg.Client, Keys: w.d.cfg.Mirror.Snapshot().Keys, ID: w.d.cfg.InstanceID, Lease: s.ID()}
	written, err := w.accuser.accuse(ctx, w.member, evidence)
	switch {
	case errors.Is(err, ErrChanged):
		return suspicion.Unregistered
	case err != nil:
		w.d.log.Warn("could not accuse a member, looking at it again", "address", w.member.Address, "evidence", evidence, "error", err)
		return suspicion.NotAccused
	}
	w.written = written
	w.d.accusations.Add(1)
	w.d.log.Info("accused a member: it is removed unless it answers", "address", w.member.Address,
		"evidence", evidence, "grace", w.d.cfg.Settings.Grace.String())
	return suspicion.Accused
}

// await gives the accused its grace, and ends it as soon as the accusation is seen
// answered.
func (w *watched) await(ctx context.Context, grace time.Duration) suspicion.Event {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	s, err := w.d.cfg.Mirror.Wait(ctx, func(s *state.Snapshot) bool {
		return s.Revision >= w.written && !s.Accused(w.member.Address, w.accuser.ID, w.written)
	})
	switch {
	case err != nil:
		return suspicion.GraceOver
	case s.Member(w.member.Address) == nil || s.Member(w.member.Address).Incarnation != w.member.Incarnation:
		return suspicion.Unregistered
	}
	w.wasRefuted()
	return suspicion.Refuted
}

func (w *watched) wasRefuted() {
	w.d.refuted.Add(1)
	w.d.log.Warn("a member refuted an accusation: it lives, but its address does not answer here; check the network and its advertise address",
		"address", w.member.Address, "evidence", w.evidence)
}

func (w *watched) remove(ctx context.Context) suspicion.Event {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := w.accuser.strike(ctx, w.member, w.written)
	switch {
	case err == nil:
		w.d.removals.Add(1)
		w.d.log.Warn("removed a member whose process is gone", "address", w.member.Address, "evidence", w.evidence,
			"after", time.Since(w.broke).Round(time.Millisecond).String())
		return suspicion.Removed
	case errors.Is(err, ErrChanged):
		return suspicion.Unregistered
	case errors.Is(err, ErrRefuted):
		w.wasRefuted()
		return suspicion.Refuted
	}
	w.d.log.Warn("could not remove a member, looking at it again", "address", w.member.Address, "error", err)
	return suspicion.NotRemoved
}
