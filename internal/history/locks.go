package history

import (
	"context"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/lock"
)

// Locks is a registry of locks as one node uses it: each lock that it takes is asked every
// millisecond whether it is valid, from when it was taken until it is released or says that it
// is not. All methods are safe for concurrent use.
type Locks struct {
	rec      *Recorder
	node     string
	registry lock.LockRegistry

	mu   sync.Mutex
	held map[*Hold]struct{} // and valid, as far as is known
}

// Locks records what a node does with a registry, until Stop.
func (r *Recorder) Locks(node string, registry lock.LockRegistry) *Locks {
	l := &Locks{rec: r, node: node, registry: registry, held: map[*Hold]struct{}{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped {
		r.wg.Go(l.sample)
	}
	return l
}

// Wanted is how a lock is to be taken.
type Wanted struct {
	Name        string
	Shared, Try bool
}

// Take takes a lock; it blocks and fails as the registry's methods do. Without an error the
// hold is nil if it was only tried, and is not free.
func (l *Locks) Take(ctx context.Context, w Wanted) (*Hold, error) {
	var opts []lock.Option
	if w.Shared {
		opts = append(opts, lock.Shared())
	}
	call := Now()
	var held lock.Held
	var err error
	if w.Try {
		held, _, err = l.registry.TryAcquire(ctx, w.Name, opts...)
	} else {
		held, err = l.registry.Acquire(ctx, w.Name, opts...)
	}
	if held == nil || err != nil {
		return nil, err
	}
	h := &Hold{Held: held, l: l, shared: w.Shared, who: Who{Process: l.rec.process, Node: l.node,
		Life: int(l.rec.ids.Add(1))},
		track: track{subject: Lock(w.Name)}}
	h.add(Window{call, call}, false)
	l.mu.Lock()
	l.held[h] = struct{}{}
	l.mu.Unlock()
	h.look()
	return h, nil
}

func (l *Locks) sample() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var held []*Hold
	for {
		held = held[:0]
		l.mu.Lock()
		for h := range l.held {
			held = append(held, h)
		}
		l.mu.Unlock()
		for _, h := range held {
			h.look()
		}
		select {
		case <-tick.C:
		case <-l.rec.stop:
			for _, h := range held {
				h.tell()
			}
			return
		}
	}
}

// Hold is a lock that was taken; each counts as a life of its own.
type Hold struct {
	lock.Held
	l      *Locks
	who    Who
	shared bool

	mu    sync.Mutex
	track track
	over  bool // it was released, or said that it is not valid
}

// look asks the lock once.
func (h *Hold) look() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	before := Now()
	valid := h.Valid()
	h.add(Window{before, Now()}, valid)
	if !valid {
		h.end()
	}
}

// tell writes what was not written yet.
func (h *Hold) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.track.current != h.track.written {
		h.l.rec.write(lineOf(h.track.current))
	}
}

// add records one answer. The lock is held, or nobody else knows h yet.
func (h *Hold) add(w Window, valid bool) {
	one := Run{Who: h.who, Subject: h.track.subject, Leads: valid, Shared: h.shared, First: w, Count: 1}
	if valid {
		one.Token = h.Token()
	}
	if lines := h.track.add(one, valid); len(lines) > 0 {
		h.l.rec.write(lines...)
	}
}

// end: there is nothing more to ask. The lock is held.
func (h *Hold) end() {
	h.over = true
	h.l.mu.Lock()
	delete(h.l.held, h)
	h.l.mu.Unlock()
}

// Release asks the lock a last time and releases it; see [lock.Held].
func (h *Hold) Release(ctx context.Context) error {
	h.look()
	h.mu.Lock()
	asked := !h.over
	h.end()
	h.mu.Unlock()
	call := Now()
	err := h.Held.Release(ctx)
	if asked {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.add(Window{call, Now()}, false)
	}
	return err
}
