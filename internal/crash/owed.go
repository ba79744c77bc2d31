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
var owedRetry = backoff.Policy{First: time.Second, Last: 30 * time.Second}

// owedGoodbye is a goodbye that this process owes to a member.
type owedGoodbye struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// oweGoodbye says goodbye to a member that this process no longer watches, and that has not received its goodbye. It
// tries until the member has, or is gone. Until then the member takes this process for an armed watcher that does not
// acknowledge, and reads etcd instead.
func (d *Detector) oweGoodbye(w *watchedMember) {
	own, _ := d.registered()
	if own == nil || d.ctx.Err() != nil {
		return // with its key the arming is gone
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, stop := context.WithCancel(d.ctx)
	o := &owedGoodbye{stop, make(chan struct{})}
	d.owed[w.address] = o // the only one, because a case about the address has ended the one before it
	d.wg.Go(func() {
		defer close(o.ended)
		defer stop()
		retry := backoff.Backoff{Policy: owedRetry, Random: d.cfg.Random}
		for d.owesGoodbye(w, own.Incarnation) && !d.tryGoodbye(ctx, w.address) && wait.For(ctx, retry.Next()) {
		}
		d.mu.Lock()
		delete(d.owed, w.address)
		d.mu.Unlock()
	})
}

// stopOwedGoodbye ends the attempts to say goodbye to the member at address, because it is about to be watched again.
// Otherwise a goodbye on a newer stream would make the member count on a watcher that an older stream has armed.
func (d *Detector) stopOwedGoodbye(address string) {
	d.mu.Lock()
	o := d.owed[address]
	d.mu.Unlock()
	if o != nil {
		o.stop()
		<-o.ended
	}
}

// owesGoodbye reports whether both members are registered as they were, and the address is not watched again.
func (d *Detector) owesGoodbye(w *watchedMember, own int64) bool {
	d.mu.Lock()
	again := d.cases[w.address]
	d.mu.Unlock()
	s := d.cfg.Mirror.Snapshot()
	return suspicion.IsMember(s, w.incarnation) && suspicion.IsMember(s, own) && (again == nil || again == w)
}

// tryGoodbye opens a watch until the member arms this process on it, and then says goodbye, which releases that arming.
// It reports whether the member has received the goodbye. If ctx ends it says none, unless the detector stops.
func (d *Detector) tryGoodbye(ctx context.Context, address string) bool {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	armed := wait.NewSignal()
	watch, err := d.cfg.Dialer.Watch(opening, address, func(heartbeat.Beat) bool {
		armed.Send()
		return false
	})
	if err != nil {
		return false
	}
	arms := false
	select {
	case <-armed:
		arms = true
	case <-opening.Done():
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
	return watch.Close(closing) && arms
}
