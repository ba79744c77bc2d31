// Package hedge sends a request to etcd again while it has no answer. The first answer wins.
//
//	request ───────────────────────────(no answer: its endpoint is gone)──────────── canceled
//	   First ─► request ───────────────(no answer: etcd's member forwarded it to a leader that is gone)── canceled
//	              2 First ─► request ──► answer
//
// The client's endpoints receive its requests in turn, so the next one mostly goes to another endpoint. A connection to
// a host without power looks healthy for seconds, and what a member of etcd has forwarded to a lost leader stays lost.
//
// Not promised: that etcd executes the request once. It may execute every copy, also after another one was answered.
// So only requests that may be repeated are sent in this way.
package hedge

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrUnwanted is returned if there was no answer when Policy.Wanted returned false.
var ErrUnwanted = errors.New("the request is not wanted any more")

// Policy determines when a request is sent again.
type Policy struct {
	// First is the time after which the second copy is sent. Each further one follows after twice as long, Last at most,
	// but First after a copy has failed.
	First, Last time.Duration
	// Each limits the time of each copy. 0 is no limit but that of the context.
	Each time.Duration
	// Most limits the number of copies. 0 is no limit.
	Most int
	// Wanted, if set, is asked before each further copy. If it returns false, the copies in progress are canceled. It must
	// not block.
	Wanted func() bool
}

// result is the outcome of one copy.
type result[T any] struct {
	value T
	err   error
}

// Do calls send, each time in a goroutine of its own, until a call returns without an error, and returns its value. It
// returns the error of a call only if no other call is in progress. If ctx ends, it returns the cause. When Do returns,
// the contexts of all calls have ended, and all calls have returned.
func Do[T any](ctx context.Context, p Policy, send func(ctx context.Context) (T, error)) (T, error) {
	copies, cancel := context.WithCancel(ctx)
	results := make(chan result[T])
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	next := time.NewTimer(0)
	defer next.Stop()
	var none T
	var due time.Time // of the next copy
	for sent, inProgress, gap := 0, 0, p.First; ; {
		select {
		case <-next.C:
			if sent > 0 && p.Wanted != nil && !p.Wanted() {
				return none, ErrUnwanted
			}
			sent, inProgress = sent+1, inProgress+1
			wg.Go(func() {
				r := sendCopy(copies, p.Each, send)
				select {
				case results <- r:
				case <-copies.Done():
				}
			})
			if sent != p.Most {
				due = time.Now().Add(gap)
				next.Reset(gap)
				gap = min(2*gap, max(p.First, p.Last))
			}
		case r := <-results:
			if inProgress--; r.err == nil || inProgress == 0 {
				return r.value, r.err
			}
			if sent != p.Most && time.Until(due) > p.First {
				due = time.Now().Add(p.First)
				next.Reset(p.First)
			}
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

// sendCopy sends one copy with a time limit of its own.
func sendCopy[T any](ctx context.Context, limit time.Duration, send func(ctx context.Context) (T, error)) result[T] {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	value, err := send(ctx)
	return result[T]{value, err}
}
