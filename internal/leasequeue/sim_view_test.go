package leasequeue

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/test/schedule"
)

// view is the view that all processes of a world share. At times a former holder may still rely on its entry;
// in most worlds none ever does.
type view struct {
	w *world

	mu      sync.Mutex
	rand    *rand.Rand
	since   time.Time     // start of the first such time; zero if there is none
	changed chan struct{} // closed when it ends
}

func newView(w *world) *view {
	v := &view{w: w, rand: schedule.NewRand(w.Seed, "view")}
	if v.rand.IntN(3) > 0 {
		return nil
	}
	return v
}

// draw returns a random time, and an event of probability one in five.
func (v *view) draw(from, to time.Duration) (d time.Duration, happens bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return schedule.Between(v.rand, from, to), v.rand.IntN(5) == 0
}

// run lets a former holder rely on its entry now and then, until the faults end.
func (v *view) run() {
	for {
		pause, _ := v.draw(1, faulty/4)
		select {
		case <-v.w.calm:
			return
		case <-time.After(pause):
		}
		v.w.Counts.Count("former holders that rely on their entry")
		v.set(true)
		lasts, _ := v.draw(10*time.Millisecond, simTTL)
		<-time.After(lasts)
		v.set(false)
	}
}

func (v *view) set(lingers bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.w.Log.Addf("", "a former holder relies on an entry that is gone: %v", lingers)
	if lingers {
		v.since, v.changed = time.Now(), make(chan struct{})
		return
	}
	v.since = time.Time{}
	close(v.changed)
}

// lingers returns since when a former holder relies on its entry, and a channel that is closed when none does.
// The channel is nil if none does now.
func (v *view) lingers() (since time.Time, over <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() {
		return time.Time{}, nil
	}
	return v.since, v.changed
}

// Fresh implements View: a former holder may appear at any time.
func (v *view) Fresh(uint64) bool { return false }

// Confirm implements View.
func (v *view) Confirm(ctx context.Context, wait bool) (clear bool, err error) {
	delay, fails := v.draw(1, 10*time.Millisecond)
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	_, over := v.lingers()
	switch {
	case fails:
		return false, errors.New("etcd does not answer")
	case over == nil:
		return true, nil
	case !wait:
		v.w.Counts.Count("tries while a former holder relied on its entry")
		return false, nil
	}
	select {
	case <-over:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// granted checks an entry that was granted, with the time of its request.
func (v *view) granted(x *Entry, asked time.Time) {
	if since, over := v.lingers(); over != nil && since.Before(asked) {
		v.w.Fail("%s was first while a former holder relied on its entry", x.Key())
	}
}
