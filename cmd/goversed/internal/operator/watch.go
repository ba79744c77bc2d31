package operator

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

const (
	checkEvery   = time.Second
	checkTimeout = 2 * time.Second

	// A watch that is opened anew is stale for a moment, also when etcd has just
	// come back; only what lasts is etcd's silence.
	staleFor = time.Second
)

// Watch calls show with the cluster as it is, and again at every change of leader,
// queue or nodes, and when etcd falls silent for a second or answers again. Changes
// that follow each other quickly may be shown as one. It blocks until ctx ends, and returns nil
// then, or until show fails. The first read is bounded by timeout and fails as Read.
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
	m, stop := o.mirror(ctx)
	defer stop()
	checks, endChecks := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { o.check(checks, m) })
	defer wg.Wait()
	defer endChecks()
	sub := m.Subscribe(nil)
	defer sub.Close()
	return follow(ctx, sub.C, m.Snapshot, show)
}

// follow shows what newest has when changed says so, until ctx ends or show fails.
func follow(ctx context.Context, changed <-chan struct{}, newest func() *state.Snapshot, show func(View) error) error {
	var last *View
	lasting := time.NewTimer(staleFor)
	defer lasting.Stop()
	lasting.Stop()
	stale := false // and the timer runs, or has run out
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
			lasting.Reset(staleFor)
			continue
		case !ranOut:
			continue
		}
		if last != nil && same(*last, v) {
			continue
		}
		if err := show(v); err != nil {
			return err
		}
		last = &v
	}
}

// check asks etcd again and again: the watch alone stays silent when etcd is gone.
func (o *Operator) check(ctx context.Context, m *watchcache.Mirror) {
	again := time.NewTicker(checkEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		known := m.Known()
		attempt, cancel := context.WithTimeout(ctx, checkTimeout)
		resp, err := o.client.Get(attempt, o.keys.RangeStart(), clientv3.WithCountOnly())
		cancel()
		switch {
		case err == nil:
			m.Saw(resp.Header, known)
		case ctx.Err() == nil:
			m.Rebuild("etcd does not answer")
		}
	}
}

// same leaves the revision out, which also moves with what is not shown.
func same(a, b View) bool {
	return a.LeaderID == b.LeaderID && a.Token == b.Token && a.Mode == b.Mode && a.Member == b.Member &&
		a.Stale == b.Stale && a.LeaderSilentSeconds == b.LeaderSilentSeconds &&
		slices.Equal(a.Queue, b.Queue) && slices.Equal(a.Nodes, b.Nodes)
}

// mirror runs a mirror until stop, which joins it.
func (o *Operator) mirror(ctx context.Context) (m *watchcache.Mirror, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	m = watchcache.New(watchcache.Config{Client: o.client, Keys: o.keys})
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) }) // ends with its context only
	return m, func() {
		cancel()
		wg.Wait()
	}
}
