package leaderonly

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/leaderelection"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a leadership controlled by the test.
type fake struct {
	mu      sync.Mutex
	changed chan struct{}
	leader  Leader
	next    bool
	err     error
	stopped bool // there will be no changes
	waiting int
}

func newFake(l Leader) *fake { return &fake{leader: l, changed: make(chan struct{})} }

const here, there = "http://10.0.0.1:80", "http://10.0.0.2:80"

// leads and follows are the views of a process that leads, and of one that does not.
func leads() Leader             { return Leader{Name: "a:1", URL: here, Token: 7, Own: true, Leads: true} }
func follows(url string) Leader { return Leader{Name: "b:1", URL: url, Token: 5} }

func (f *fake) become(l Leader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = l
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.become(Leader{})
}

func (f *fake) AsLeader(ctx context.Context, fn func(context.Context, Tenure) error) error {
	f.mu.Lock()
	l, err := f.leader, f.err
	f.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !l.Leads:
		return leaderelection.ErrNotLeader
	}
	return fn(ctx, Tenure{Token: l.Token})
}

func (f *fake) Leader() Leader {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader
}

func (f *fake) Next() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

func (f *fake) Await(ctx context.Context, done func() bool) error {
	f.mu.Lock()
	f.waiting++
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.waiting--; f.mu.Unlock() }()
	for {
		f.mu.Lock()
		changed, stopped := f.changed, f.stopped
		f.mu.Unlock()
		switch {
		case done():
			return nil
		case stopped:
			return leaderelection.ErrStopped
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
