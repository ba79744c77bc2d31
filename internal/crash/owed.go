package crash

import (
	"context"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// owedRetry is the policy for the delay between two attempts to say an owed goodbye. Nothing but reads of the member
// waits for it.
var owedRetry = backoff.Policy{First: time.Second, Last: 10 * time.Second}

// armedUntil is the time after which no stream that has ended here arms this process any more: the process at its other
// end sends only some heartbeats unheard, for 10 s.
const armedUntil = 30 * time.Second

// owedGoodbye is a goodbye that this process owes to another one, as a member. It belongs to that process and not to
// one incarnation, because a process that registers again arms anew, by the streams whose end it has not noticed yet.
type owedGoodbye struct {
	member *state.Member // as it was when it was last watched
	arming uint64        // the newest arming by it that is known, 0 if none is
	stop   context.CancelFunc
	ended  chan struct{}
	said   bool // valid once ended is closed
}

// oweGoodbye says goodbye to a member that this process no longer watches, and that may have armed it by a watch which
// ended without a goodbye. It tries until the member has received one, or is gone for good. Until then the member takes
// this process for an armed watcher that does not acknowledge, and reads etcd instead.
func (d *Detector) oweGoodbye(w *watchedMember) {
	if d.ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, stop := context.WithCancel(d.ctx)
	o := &owedGoodbye{member: w.member, arming: w.silence.arming(), stop: stop, ended: make(chan struct{})}
	d.owed[w.address] = o // the only one, because a case about the address has ended the one before it
	d.wg.Go(func() {
		defer close(o.ended)
		defer stop()
		d.sayOwedGoodbye(ctx, o)
		d.mu.Lock()
		delete(d.owed, w.address)
		d.mu.Unlock()
	})
}

// sayOwedGoodbye says goodbye while both processes are members: others are not armed. It returns when the goodbye has
// been received, ctx has ended, or the other process is gone for good.
func (d *Detector) sayOwedGoodbye(ctx context.Context, o *owedGoodbye) {
	retry := backoff.Backoff{Policy: owedRetry, Random: d.cfg.Random}
	for seen := time.Now(); ; {
		m := d.cfg.Mirror.Snapshot().Member(o.member.Address)
		switch own, _ := d.registered(); {
		case m == nil && time.Since(seen) > armedUntil, m != nil && m.InstanceID != o.member.InstanceID:
			return
		case m != nil && own != nil:
			o.said = d.tryGoodbye(ctx, o.member, o.arming > 0)
		}
		if m != nil {
			seen = time.Now()
		}
		if o.said || !wait.For(ctx, retry.Next()) {
			return
		}
	}
}

// stopOwedGoodbye ends the attempts to say goodbye to a process, because w is about to watch it again. Otherwise a
// goodbye on a newer stream would make that process count on a watcher that an older stream has armed. If the goodbye
// is owed still, w owes it.
func (d *Detector) stopOwedGoodbye(w *watchedMember) {
	d.mu.Lock()
	o := d.owed[w.address]
	d.mu.Unlock()
	if o == nil {
		return
	}
	o.stop()
	<-o.ended
	if !o.said && o.member.InstanceID == w.member.InstanceID {
		w.mayBeArmed = true
		w.silence.inheritArming(o.arming)
	}
}

// tryGoodbye opens a watch until the member m arms this process on it, and then says goodbye, which releases that
// arming and those of earlier watches. If it is not known that m arms any process, and m sends heartbeats for
// openTimeout that do not arm this one, then m has not armed it. TryGoodbye reports whether m counts on this process no
// more. If ctx ends it says no goodbye, unless the detector stops.
func (d *Detector) tryGoodbye(ctx context.Context, m *state.Member, arms bool) bool {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	armed := wait.NewSignal()
	watch, err := d.cfg.Dialer.Watch(opening, m.Address, m.InstanceID, func(heartbeat.Beat) bool {
		armed.Send()
		return false
	})
	if err != nil {
		return false
	}
	released := false
	select {
	case <-armed:
		released = true
	case <-opening.Done():
		released = !arms && watch.Heard() > 0
	}
	closing, cancel := context.WithTimeout(d.goodbyeCtx, openTimeout)
	defer cancel()
	giveUp := func() {
		if d.ctx.Err() == nil {
			cancel()
		}
	}
	if ctx.Err() != nil {
		giveUp()
	}
	defer context.AfterFunc(ctx, giveUp)()
	return watch.Close(closing) && released
}
