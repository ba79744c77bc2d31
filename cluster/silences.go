package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// silences are when this node learned of what watchers say of members that do not answer them: clocks of different
// hosts are not compared. The zero value is ready.
type silences struct {
	mu   sync.Mutex
	seen map[silenceSaid]time.Time
}

// silenceSaid is one thing that was said.
type silenceSaid struct {
	address, watcher string
	revision         int64
}

// follow keeps them until ctx ends.
func (l *silences) follow(ctx context.Context, view *watchcache.Mirror) {
	sub := view.Subscribe(func(before, now *state.Snapshot) bool { return !state.Same(before.Silences, now.Silences) })
	defer sub.Close()
	wait.Each(ctx, sub.C, func() {
		if s := view.Snapshot(); s != nil {
			l.saw(s, time.Now())
		}
	})
}

// saw forgets what is said no more.
func (l *silences) saw(s *state.Snapshot, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make(map[silenceSaid]time.Time, len(s.Silences))
	for _, x := range s.Silences {
		said := silenceSaid{x.Address, x.Watcher, x.ModRevision}
		seen[said] = now
		if at, before := l.seen[said]; before {
			seen[said] = at
		}
	}
	l.seen = seen
}

// of is for how long m has not answered, at most, and to how many watchers.
func (l *silences) of(s *state.Snapshot, m *state.Member) (silent time.Duration, to int) {
	return l.at(s, m, time.Now())
}

func (l *silences) at(s *state.Snapshot, m *state.Member, now time.Time) (silent time.Duration, to int) {
	all := s.SilencesOf(m)
	if len(all) == 0 {
		return 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range all {
		since := time.Duration(0)
		if at, ok := l.seen[silenceSaid{x.Address, x.Watcher, x.ModRevision}]; ok {
			since = max(now.Sub(at), 0)
		}
		silent = max(silent, x.Silent()+since)
	}
	return silent, len(all)
}
