package crash

import (
	"context"
	"time"

	"github.com/goverse/goverse/internal/state"
)

// A host that is lost may carry the member of etcd to which a node's watch goes. That watch delivers nothing more, and
// is found broken only after seconds. So each node that learns of the removal of a silent member reports that to the
// members that it watches, with the revision of etcd: first the remover, and those whose watches show it. A report
// says nothing but that a look at etcd is worth while. The mirror then compares its snapshot with etcd at that
// revision.
//
// The reports go once around the ring of the members, because a node that finds out what it missed reports it, too.
// They repeat nothing: a member gets one from each of its watchers for each removal, and ignores those that its
// snapshot has reached.

const (
	// shownWithin is the time within which a watch shows what etcd has committed. The comparison with etcd after it is a
	// small read, in vain if the machine is only busy. Many nodes do not compare at once: see Detector.spread.
	shownWithin = 50 * time.Millisecond
	// maxReports limits the reports that wait to be checked. Members rarely send any, and each of several reports of one
	// removal suffices.
	maxReports = 16
)

// learnRemoval is called when etcd has shown, at a revision, that a member is gone that this process watched, or that
// was removed for its silence. It does not block.
func (d *Detector) learnRemoval(revision int64) {
	for {
		old := d.removal.Load()
		if revision <= old {
			return
		}
		if d.removal.CompareAndSwap(old, revision) {
			break
		}
	}
	for _, w := range d.allCases() {
		w.heartbeats.reportRemoval(revision)
	}
	d.RemovalReported(revision) // the own watch may be the one that shows nothing more
}

// learnRemovals learns of the removals that the snapshot shows.
func (d *Detector) learnRemovals(s *state.Snapshot) {
	for _, a := range s.Accusations {
		if a.Removed {
			d.learnRemoval(a.ModRevision)
		}
	}
}

// RemovalReported implements [heartbeat.Armer].
func (d *Detector) RemovalReported(revision int64) {
	if s := d.cfg.Mirror.Snapshot(); d.cfg.Settings.Off || s == nil || revision <= s.Revision {
		return
	}
	select {
	case d.reports <- revision:
	default:
	}
}

// checkReports compares the mirror with etcd after each report, until ctx ends.
func (d *Detector) checkReports(ctx context.Context) {
	for {
		select {
		case revision := <-d.reports:
			d.cfg.Mirror.CheckUpTo(ctx, revision, shownWithin+d.spread(d.cfg.Mirror.Snapshot()))
		case <-ctx.Done():
			return
		}
	}
}

// reportRemoval reports a removal to the member, if a watch of it was opened.
func (p *heartbeatTracker) reportRemoval(revision int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watch != nil && revision > 0 {
		p.watch.ReportRemoval(revision)
	}
}
