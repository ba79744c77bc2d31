package operator

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

const (
	checkInterval = time.Second
	checkTimeout  = 2 * time.Second

	// staleAfter is the time after which a stale view is shown. A watch that is being reopened is stale for a
	// moment, too, also when etcd has just come back.
	staleAfter = time.Second
)

// Watch calls show with the cluster as it is, and again at every change of leader, queue or nodes. It also
// calls show when etcd has not answered for a second, or answers again. Changes in quick succession may be
// shown as one. Watch blocks until ctx ends, and then returns nil, or until show fails. Timeout limits the
// first read, which fails like Read.
func (o *Operator) Watch(ctx context.Context, timeout time.Duration, show func(View) error) error {
	first, cancel := context.WithTimeout(ctx, timeout)
	_, err := o.read(first)
	cancel()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	m, stop := o.runMirror(ctx)
	defer stop()
	checks, endChecks := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { o.pollEtcd(checks, m) })
	defer wg.Wait()
	defer endChecks()
	sub := m.Subscribe(nil)
	defer sub.Close()
	return showChanges(ctx, sub.C, m.Snapshot, show)
}

// showChanges shows the newest snapshot at each change, until ctx ends or show fails.
func showChanges(ctx context.Context, changed <-chan struct{}, newest func() *state.Snapshot,
	show func(View) error) error {
	var last *View
	lasting := time.NewTimer(staleAfter)
	defer lasting.Stop()
	lasting.Stop()
	stale := false // if set, the timer runs or has fired
	for {
		ranOut := false
		select {
		case <-changed:
		case <-lasting.C:
			ranOut = true
		case <-ctx.Done():
			return nil
		}
		s := newest()
		if s == nil {
			continue
		}
		v := newView(s)
		switch {
		case !v.Stale:
			stale = false
			lasting.Stop()
		case !stale:
			stale = true
			lasting.Reset(staleAfter)
			continue
		case !ranOut:
			continue
		}
		if last != nil && sameView(*last, v) {
			continue
		}
		if err := show(v); err != nil {
			return err
		}
		last = &v
	}
}

// pollEtcd asks etcd periodically, because the watch reports nothing when etcd is gone.
func (o *Operator) pollEtcd(ctx context.Context, m *watchcache.Mirror) {
	again := time.NewTicker(checkInterval)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		known := m.KnownRevision()
		attempt, cancel := context.WithTimeout(ctx, checkTimeout)
		resp, err := o.client.Get(attempt, o.keys.RangeStart(), clientv3.WithCountOnly())
		cancel()
		switch {
		case err == nil:
			m.ObserveHeader(resp.Header, known)
		case ctx.Err() == nil:
			m.Rebuild("etcd does not answer")
		}
	}
}

// sameView compares all but the revision, which also advances with changes that are not shown.
func sameView(a, b View) bool {
	return a.LeaderID == b.LeaderID && a.Token == b.Token && a.Mode == b.Mode && a.Member == b.Member &&
		a.Stale == b.Stale && a.LeaderSilentSeconds == b.LeaderSilentSeconds &&
		slices.Equal(a.Queue, b.Queue) && slices.Equal(a.Nodes, b.Nodes)
}

// runMirror runs a mirror until stop is called, which joins it.
func (o *Operator) runMirror(ctx context.Context) (m *watchcache.Mirror, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	m = watchcache.New(watchcache.Config{Process: etcd.Process{Client: o.client, Keys: o.keys}})
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) }) // fails only when its context ends
	return m, func() {
		cancel()
		wg.Wait()
	}
}
