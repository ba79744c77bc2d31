package crash

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// marksRetry is the pause after marks could not be written. No other action waits for the marks.
	marksRetry = time.Second
	// If many members fall silent at once, their watchers do not mark all of them at once. Each waits as spread returns,
	// so the first marks are seen before the last are written, and suffice.
	maxSpread, spreadPerMember = 500 * time.Millisecond, 2 * time.Millisecond
)

// spread returns a random time, so that not all members do something at once: up to spreadPerMember for each of them,
// maxSpread at most.
func (d *Detector) spread(s *state.Snapshot) time.Duration {
	most := min(time.Duration(len(s.Members))*spreadPerMember, maxSpread)
	return time.Duration(d.cfg.Random() * float64(most))
}

// heartbeatTracker tracks the heartbeats of one member. The zero value is ready to use.
type heartbeatTracker struct {
	mu       sync.Mutex
	watch    Watch // the last watch; nil before the first
	listener heartbeat.Listener
}

func (p *heartbeatTracker) watchOpened(w Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch, p.listener = w, p.listener.OnOpened(time.Now(), w.Heartbeats())
}

func (p *heartbeatTracker) stopListening() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = p.listener.OnGoodbye()
}

// silentFor returns the time for which the member has been silent.
func (p *heartbeatTracker) silentFor(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watch == nil {
		return 0
	}
	p.listener = p.listener.OnCheck(now, p.watch.Heard())
	return p.listener.SilentFor()
}

// silenceLoop regularly checks which watched members do not answer, and marks them in etcd, where every
// node can show it. A mark has no further effect. When the detector stops, the loop erases the marks.
func (d *Detector) silenceLoop() {
	ticker := time.NewTicker(heartbeat.CheckEvery)
	defer ticker.Stop()
	idle := make(chan struct{}, 1) // full while no marks are being written
	idle <- struct{}{}
	for {
		select {
		case <-ticker.C:
		case <-d.ctx.Done():
			<-idle
			d.eraseMarks()
			return
		}
		silent := d.silentMembers(time.Now())
		d.silent.Store(int64(len(silent)))
		s := d.cfg.Mirror.Snapshot()
		if s != nil {
			d.armer.dropGone(s)
			d.mu.Lock()
			d.dropUnwanted(s)
			d.mu.Unlock()
		}
		if s == nil || suspicion.MarkChangesOf(s, d.cfg.InstanceID, silent).IsEmpty() {
			continue
		}
		select {
		case <-idle:
		default:
			continue
		}
		d.wg.Go(func() {
			d.writeMarks(s)
			idle <- struct{}{}
		})
	}
}

// allCases returns the cases at this moment.
func (d *Detector) allCases() []*watchedMember {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.cases))
}

// silentMembers returns the watched members that have been silent for heartbeat.SilentAfter at now.
func (d *Detector) silentMembers(now time.Time) (out []suspicion.SilentMember) {
	for _, w := range d.allCases() {
		w.checkSilence()
		if silent := w.heartbeats.silentFor(now); silent >= heartbeat.SilentAfter {
			out = append(out, suspicion.SilentMember{Address: w.address, Incarnation: w.incarnation, Silent: silent})
		}
	}
	return out
}

// writeMarks writes and erases marks. It returns when the snapshot shows them, or after a time limit.
func (d *Detector) writeMarks(s *state.Snapshot) {
	if !wait.For(d.ctx, d.spread(s)) {
		return
	}
	s = d.cfg.Mirror.Snapshot()
	marks := suspicion.MarkChangesOf(s, d.cfg.InstanceID, d.silentMembers(time.Now()))
	session := d.cfg.Keeper.Current()
	if session == nil || !session.Valid() { // a member that is itself cut off cannot judge others
		wait.For(d.ctx, marksRetry)
		return
	}
	newest := int64(0)
	var failed error
	commit := func(t txn.Txn) {
		resp, err := d.commitMark(d.ctx, t)
		if err != nil {
			failed = err
		} else if resp.Succeeded { // otherwise there is no event at that revision
			newest = resp.Header.Revision
		}
	}
	for _, x := range marks.Erase {
		commit(txn.DeleteSilence(s.Keys, x))
	}
	for _, u := range marks.Write {
		commit(txn.WriteSilence(s.Keys, s.Member(u.Address), d.cfg.InstanceID, int64(session.ID()),
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

// eraseMarks erases all marks of this member that it sees, while goodbyes may be said. Those that remain go with its
// session.
func (d *Detector) eraseMarks() {
	s := d.cfg.Mirror.Snapshot()
	if s == nil {
		return
	}
	for _, x := range suspicion.MarkChangesOf(s, d.cfg.InstanceID, nil).Erase {
		_, _ = d.commitMark(d.goodbyeCtx, txn.DeleteSilence(s.Keys, x))
	}
}

func (d *Detector) commitMark(ctx context.Context, t txn.Txn) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return txn.Commit(ctx, d.cfg.Client, t)
}
