package crash

import (
	"context"
	"time"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/wait"
)

// owedRetry is the policy for the delay between two attempts to say an owed goodbye. Nothing but reads of the member
// waits for it.
var owedRetry = backoff.Policy{First: time.Second, Last: 5 * time.Second}

// owedGoodbye is a goodbye that this process owes to a member.
type owedGoodbye struct {
	incarnation int64 // the member's
	stop        context.CancelFunc
	ended       chan struct{}
	said        bool // valid once ended is closed
}

// oweGoodbye says goodbye to a member that this process no longer watches, and that may have armed it by a watch which
// ended without a goodbye. It tries until the member has received one, or is gone. Until then the member takes this
// process for an armed watcher that does not acknowledge, and reads etcd instead.
func (d *Detector) oweGoodbye(w *watchedMember) {
	own, _ := d.registered()
	if own == nil || d.ctx.Err() != nil {
		return // with its key the arming is gone
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, stop := context.WithCancel(d.ctx)
	o := &owedGoodbye{incarnation: w.incarnation, stop: stop, ended: make(chan struct{})}
	d.owed[w.address] = o // the only one, because a case about the address has ended the one before it
	d.wg.Go(func() {
		defer close(o.ended)
		defer stop()
		retry := backoff.Backoff{Policy: owedRetry, Random: d.cfg.Random}
		for !o.said && d.bothRegistered(w.incarnation, own.Incarnation) {
			if o.said = d.tryGoodbye(ctx, w.address, w.member.InstanceID); !o.said && !wait.For(ctx, retry.Next()) {
				break
			}
		}
		d.mu.Lock()
		delete(d.owed, w.address)
		d.mu.Unlock()
	})
}

// stopOwedGoodbye ends the attempts to say goodbye to a member, because w is about to watch it again. Otherwise a
// goodbye on a newer stream would make the member count on a watcher that an older stream has armed. It reports whether
// the goodbye is owed still.
func (d *Detector) stopOwedGoodbye(w *watchedMember) (owed bool) {
	d.mu.Lock()
	o := d.owed[w.address]
	d.mu.Unlock()
	if o == nil {
		return false
	}
	o.stop()
	<-o.ended
	return !o.said && o.incarnation == w.incarnation
}

// bothRegistered reports whether both incarnations are members.
func (d *Detector) bothRegistered(a, b int64) bool {
	s := d.cfg.Mirror.Snapshot()
	return suspicion.IsMember(s, a) && suspicion.IsMember(s, b)
}

// tryGoodbye opens a watch until the member arms this process on it, and then says goodbye, which releases that arming
// and replaces earlier ones. A member that sends heartbeats for openTimeout and does not arm this process has not armed
// it before. TryGoodbye reports whether the member has received the goodbye. If ctx ends it says none, unless the
// detector stops.
func (d *Detector) tryGoodbye(ctx context.Context, address, instance string) bool {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	armed := wait.NewSignal()
	watch, err := d.cfg.Dialer.Watch(opening, address, instance, func(heartbeat.Beat) bool {
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
		released = watch.Heard() > 0
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
