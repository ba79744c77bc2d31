package node

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// watchesPerConn bounds the watches on one connection. A node opens one on each.
	watchesPerConn = 4
	// maxStrangers bounds the watches of those who have not proved to be members.
	maxStrangers = 256
	// introduction is how long a stranger is left alone: by then a member has proved to be one.
	introduction = time.Second
	// maxInstanceID bounds what a watcher calls itself.
	maxInstanceID = 128
)

// watcher is the other end of one watch on this node.
type watcher struct {
	connection string // its remote address
	opened     time.Time
	challenge  []byte
	evicted    chan struct{} // closed to make room for another one

	mu       sync.Mutex
	instance string // what it says it is; "" before
	proof    []byte
	watching bool   // it has answered
	refuted  []byte // the key that its proof does not fit to
	member   bool   // it was a member that may watch this node, and proved it
}

// proved reports whether the watcher is, or was at some instant of its watch, a member that may watch this node.
func (w *watcher) proved(self string, roster *Roster) bool {
	w.mu.Lock()
	instance, proof, refuted, member := w.instance, w.proof, w.refuted, w.member
	watching := w.watching
	w.mu.Unlock()
	switch {
	case member || !watching:
		return member
	case roster == nil:
	default:
		key, known := (*roster)(instance)
		if !known || key != nil && bytes.Equal(key, refuted) {
			return false
		}
		if key != nil && !proves(key, w.challenge, self, proof) {
			w.mu.Lock()
			w.refuted = key
			w.mu.Unlock()
			return false
		}
	}
	w.mu.Lock()
	w.member = true
	w.mu.Unlock()
	return true
}

// answered notes that the watcher has read who this is: from here on it watches.
func (w *watcher) answered(proof []byte) {
	if len(proof) != ed25519.SignatureSize {
		proof = nil // and is not kept: anybody can send it
	}
	w.mu.Lock()
	w.proof, w.watching = bytes.Clone(proof), true
	w.mu.Unlock()
}

// watchers are those of one node, in the order in which they came. Those who have not proved to be members are
// strangers: they are bounded, and one who comes late pushes out one who has had the time to prove it.
type watchers struct {
	wg sync.WaitGroup // of the goroutines that listen to them

	mu  sync.Mutex
	all []*watcher
}

// admit takes a watcher in, if there is room.
func (w *watchers) admit(x *watcher, proved func(*watcher) bool) error {
	if err := w.add(x); err == nil {
		return nil
	}
	// It may have been proved since, as of a member that has just joined.
	strangers := slices.DeleteFunc(w.list(), proved)
	for _, s := range strangers {
		if x.opened.Sub(s.opened) >= introduction && w.remove(s) {
			close(s.evicted)
			break
		}
	}
	return w.add(x)
}

func (w *watchers) add(x *watcher) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	here, strangers := 0, 0
	for _, other := range w.all {
		if other.connection == x.connection {
			here++
		}
		if other.stranger() {
			strangers++
		}
	}
	if here >= watchesPerConn || strangers >= maxStrangers {
		return status.Error(codes.ResourceExhausted, "too many watches: end some")
	}
	w.all = append(w.all, x)
	return nil
}

func (w *watcher) stranger() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.member
}

// remove reports whether x was there.
func (w *watchers) remove(x *watcher) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.all, x)
	if i >= 0 {
		w.all = slices.Delete(w.all, i, i+1)
	}
	return i >= 0
}

// list is a copy of them.
func (w *watchers) list() []*watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}
