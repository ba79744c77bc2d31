package simulation

import (
	"time"

	"github.com/goverse/goverse/internal/state"
)

// watch is one watch of the range, as etcd and the network know it.
type watch struct {
	p      *process
	sent   int64         // revision up to which everything was delivered
	last   time.Duration // when the newest message on its way arrives: none overtakes another
	stuck  bool          // messages wait for the way to be free
	closed bool
	dead   bool // nothing ever comes through again, and nobody says so
}

// message is what a watch delivers.
type message struct {
	term     uint64 // of raft
	revision int64  // of etcd when it was sent
	opening  bool
	progress bool
	events   []state.Event
	err      error
}

// open begins to watch from a revision on (0: from now), when the request arrives.
func (e *etcd) open(p *process, from int64) *watch {
	w := &watch{p: p, sent: from - 1}
	h := p.host
	if h.link.noRequests {
		return w
	}
	e.w.after(h.delay(), func() {
		if e.away || h.link.noRequests || w.closed {
			return
		}
		if from == 0 {
			w.sent = e.revision
		}
		e.watches = append(e.watches, w)
		e.send(w, message{revision: e.revision, opening: true})
		if w.sent < e.revision {
			e.send(w, message{revision: e.revision})
		}
	})
	return w
}

// notify notifies every watch that something changed.
func (e *etcd) notify() {
	for _, w := range e.watches {
		e.send(w, message{revision: e.revision})
	}
}

// send puts a message on its way. What it carries is decided when it arrives: all that
// was not delivered, up to its revision.
func (e *etcd) send(w *watch, m message) {
	if w.closed {
		return
	}
	m.term = e.term
	w.last = max(w.last, e.w.now+w.p.host.delay())
	e.w.queue.push(event{at: w.last, p: w.p, do: func() { e.arrive(w, m) }})
}

func (e *etcd) arrive(w *watch, m message) {
	link := w.p.host.link
	switch {
	case w.closed || w.dead:
		return
	case link.frozen || link.noAnswers || e.away:
		w.stuck = true
		return
	}
	if !m.opening && m.err == nil {
		m.events, m.err = e.since(w.sent, m.revision)
		if len(m.events) == 0 && m.err == nil && !m.progress {
			return
		}
		w.sent = max(w.sent, m.revision)
	}
	if m.opening && w.p.host.link.stillborn {
		w.p.host.link.stillborn, w.dead = false, true
	}
	if m.err != nil {
		e.close(w)
	}
	w.p.mirror.receive(w, m)
}

// free lets what was stuck come through.
func (e *etcd) free() {
	for _, w := range e.watches {
		if w.stuck {
			w.stuck = false
			e.send(w, message{revision: e.revision})
		}
	}
}

// breakOff ends a watch with an error.
func (e *etcd) breakOff(p *process, err error) {
	for _, w := range e.watches {
		if w.p == p && !w.closed {
			e.send(w, message{err: err})
			return
		}
	}
}

func (e *etcd) close(w *watch) {
	w.closed = true
	for i, x := range e.watches {
		if x == w {
			e.watches = append(e.watches[:i:i], e.watches[i+1:]...)
			return
		}
	}
}
