package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// silenceReports remembers when this node learned of each watcher's report that a member does not answer. It uses only
// this node's clock, because clocks of different hosts cannot be compared. The zero value is ready.
type silenceReports struct {
	mu   sync.Mutex
	seen map[silenceReport]time.Time
}

// silenceReport identifies one report.
type silenceReport struct {
	address, watcher string
	revision         int64
}

// followView keeps the reports current until ctx ends.
func (l *silenceReports) followView(ctx context.Context, view *watchcache.Mirror) {
	sub := view.Subscribe(func(before, now *state.Snapshot) bool {
		return !state.SameSlice(before.Silences,
			now.Silences)
	})
	defer sub.Close()
	wait.Each(ctx, sub.C, func() {
		if s := view.Snapshot(); s != nil {
			l.record(s, time.Now())
		}
	})
}

// record adds new reports and forgets those that were withdrawn.
func (l *silenceReports) record(s *state.Snapshot, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make(map[silenceReport]time.Time, len(s.Silences))
	for _, x := range s.Silences {
		said := silenceReport{x.Address, x.Watcher, x.ModRevision}
		seen[said] = now
		if at, before := l.seen[said]; before {
			seen[said] = at
		}
	}
	l.seen = seen
}

// silenceOf returns the longest time for which m has not answered a watcher, and the number of such watchers.
func (l *silenceReports) silenceOf(s *state.Snapshot, m *state.Member) (silent time.Duration, to int) {
	return l.silenceAt(s, m, time.Now())
}

func (l *silenceReports) silenceAt(s *state.Snapshot, m *state.Member, now time.Time) (silent time.Duration, to int) {
	all := s.SilencesOf(m)
	if len(all) == 0 {
		return 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range all {
		since := time.Duration(0)
		if at, ok := l.seen[silenceReport{x.Address, x.Watcher, x.ModRevision}]; ok {
			since = max(now.Sub(at), 0)
		}
		silent = max(silent, x.SilentFor()+since)
	}
	return silent, len(all)
}
