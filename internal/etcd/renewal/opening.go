package renewal

import (
	"context"
	"slices"
	"time"
)

// streamOpening is a stream that is being opened. With a user and a password, etcd's client logs in first.
type streamOpening struct {
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{}
	stream *renewalStream // set when done is closed
	err    error          // set when done is closed
}

// awaitStream returns the standing stream, and opens it if there is none.
//
// It waits until ctx ends, and then leaves the opening to the next caller. A log-in that is canceled costs etcd
// as much as one that completes, and if many clients log in at a time, canceled log-ins would never succeed. If
// there are several endpoints, an opening that has taken longer than its caller waited may be stuck at an
// endpoint that hangs. A second one is then begun beside it.
func (r *Renewer) awaitStream(ctx context.Context) (*renewalStream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, waitFor := r.standingOrOpening(stuckAfter(ctx))
	if s != nil {
		return s, nil
	}
	select {
	case <-waitFor.done:
		return waitFor.stream, waitFor.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// minStuckAfter is the shortest time after which an opening may be considered stuck at an endpoint that hangs.
const minStuckAfter = time.Second

func stuckAfter(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return max(time.Until(deadline), minStuckAfter)
}

// standingOrOpening returns the standing stream, or otherwise the opening to wait for, which it begins if necessary.
func (r *Renewer) standingOrOpening(patience time.Duration) (*renewalStream, *streamOpening) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.standing != nil {
		return r.standing, nil
	}
	if n := len(r.openings); n > 0 {
		newest := r.openings[n-1]
		if !r.hedged() || time.Since(newest.began) < patience {
			return nil, newest
		}
		if n > 1 {
			r.openings[0].cancel()
		}
	}
	o := &streamOpening{began: time.Now(), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(r.ctx)
	o.cancel = cancel
	r.openings = append(r.openings, o)
	r.wg.Go(func() { r.openStream(ctx, o) })
	return nil, o
}

// openStream opens a stream and receives its answers until it ends.
func (r *Renewer) openStream(ctx context.Context, o *streamOpening) {
	defer o.cancel()
	opened, err := r.streams.LeaseKeepAlive(ctx)
	s := newStream(opened, o.cancel)
	r.mu.Lock()
	r.openings = slices.DeleteFunc(r.openings, func(x *streamOpening) bool { return x == o })
	switch {
	case err != nil:
		o.err = err
	case r.standing == nil:
		o.stream, r.standing = s, s
	default: // another opening was faster
		o.stream = r.standing
		o.cancel()
	}
	r.mu.Unlock()
	close(o.done)
	if err == nil {
		s.receiveAnswers()
		r.discardStream(s)
	}
}
