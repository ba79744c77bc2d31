package crash

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// marksRetry is the pause after marks could not be written. No other action waits for the marks.
	marksRetry = time.Second
	// If many members fall silent at once, their watchers do not mark all of them at once. Each waits a random
	// part of spreadOfEach for each member, mostSpread at most. The first marks are then seen before the last
	// are written, and suffice.
	mostSpread, spreadOfEach = 500 * time.Millisecond, 2 * time.Millisecond
)

// pulse tracks the heartbeats of one member. The zero value is ready to use.
type pulse struct {
	mu       sync.Mutex
	watch    Watch // the last watch; nil before the first
	listener heartbeat.Listener
}

func (p *pulse) opened(w Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch, p.listener = w, p.listener.Opened(time.Now(), w.Heartbeats())
}

func (p *pulse) goodbye() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = p.listener.Goodbye()
}

// look returns the time for which the member has been silent.
func (p *pulse) look(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watch == nil {
		return 0
	}
	p.listener = p.listener.Look(now, p.watch.Heard())
	return p.listener.Silent()
}

// listenForSilence regularly checks which watched members do not answer, and marks them in etcd, where every
// node can show it. A mark has no further effect.
func (d *Detector) listenForSilence() {
	ticker := time.NewTicker(heartbeat.LookEvery)
	defer ticker.Stop()
	idle := make(chan struct{}, 1) // full while no marks are being written
	idle <- struct{}{}
	for {
		select {
		case <-ticker.C:
		case <-d.ctx.Done():
			return
		}
		silent := d.unanswered(time.Now())
		d.silent.Store(int64(len(silent)))
		s := d.cfg.Mirror.Snapshot()
		if s == nil || suspicion.MarksOf(s, d.cfg.InstanceID, silent).None() {
			continue
		}
		select {
		case <-idle:
		default:
			continue
		}
		d.wg.Go(func() {
			d.mark(s)
			idle <- struct{}{}
		})
	}
}

// unanswered returns the watched members that have been silent for heartbeat.SilentAfter at now.
func (d *Detector) unanswered(now time.Time) (out []suspicion.Unanswered) {
	d.mu.Lock()
	all := slices.Collect(maps.Values(d.cases))
	d.mu.Unlock()
	for _, w := range all {
		if silent := w.pulse.look(now); silent >= heartbeat.SilentAfter {
			out = append(out, suspicion.Unanswered{Address: w.address, Incarnation: w.incarnation, Silent: silent})
		}
	}
	return out
}

// mark writes and erases marks. It returns when the snapshot shows them, or after a time limit.
func (d *Detector) mark(s *state.Snapshot) {
	spread := min(time.Duration(len(s.Members))*spreadOfEach, mostSpread)
	if !wait.For(d.ctx, time.Duration(d.cfg.Random()*float64(spread))) {
		return
	}
	s = d.cfg.Mirror.Snapshot()
	marks := suspicion.MarksOf(s, d.cfg.InstanceID, d.unanswered(time.Now()))
	session := d.cfg.Keeper.Current()
	if session == nil || !session.Valid() { // a member that is itself cut off cannot judge others
		wait.For(d.ctx, marksRetry)
		return
	}
	newest := int64(0)
	var failed error
	commit := func(t txn.Txn) {
		ctx, cancel := context.WithTimeout(d.ctx, requestTimeout)
		defer cancel()
		resp, err := txn.Commit(ctx, d.cfg.Client, t)
		if err != nil {
			failed = err
			return
		}
		newest = resp.Header.Revision
	}
	for _, x := range marks.Erase {
		commit(txn.Answers(s.Keys, x))
	}
	for _, u := range marks.Write {
		commit(txn.Silent(s.Keys, s.Member(u.Address), d.cfg.InstanceID, int64(session.ID()),
			state.SilenceRecord{Incarnation: u.Incarnation, SilentMS: u.Silent.Milliseconds()}))
	}
	if failed != nil {
		d.log.Debug("could not mark which members do not answer, retrying", "error", failed)
		wait.For(d.ctx, marksRetry)
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, marksRetry)
	defer cancel()
	// After a timeout the marks are written again.
	_, _ = d.cfg.Mirror.Wait(ctx, func(s *state.Snapshot) bool { return s.Revision >= newest })
}
