package peer

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/wait"
)

const (
	// watchesPerConn limits the watches on one connection. A node opens one connection per watch.
	watchesPerConn = 4
	// maxStrangers limits the watches by processes that have not proved membership.
	maxStrangers = 256
	// proofTimeout is the time a stranger has before it can be evicted. It is enough for a member's proof.
	proofTimeout = time.Second
	// maxInstanceID limits the length of a watcher's instance id.
	maxInstanceID = 128
)

// watcher is the remote end of one watch on this node.
type watcher struct {
	connection string // its remote address
	opened     time.Time
	challenge  []byte
	evicted    chan struct{} // closed to make room for another watcher
	answered   wait.Signal   // sent when it has answered the challenge
	heard      atomic.Uint64 // number of messages received since the first
	armed      armedStream
	// acknowledges reports that it sends and accepts heartbeats, and acknowledges those that arm it; mayArm, that it has
	// also answered the challenge; newest, that its older streams are superseded. Only the goroutine that sends to it uses
	// these fields.
	acknowledges, mayArm, newest bool

	mu         sync.Mutex
	instance   string // as the watcher claims; "" before it has
	proof      []byte
	watching   bool   // it has answered the challenge
	refutedKey []byte // the key that its proof does not match
	member     bool   // it has proved that it was a member that may watch this node
	signed     bool   // it has proved that by its signature, and not only by its name
}

// provedMember reports whether the watcher is, or was at some time during its watch, a member that may watch this
// node.
func (w *watcher) provedMember(self string, roster *Roster) bool {
	w.mu.Lock()
	instance, proof, refuted, member := w.instance, w.proof, w.refutedKey, w.member
	watching, signed := w.watching, false
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
		if key != nil && !proofValid(key, w.challenge, self, proof) {
			w.mu.Lock()
			w.refutedKey = key
			w.mu.Unlock()
			return false
		}
		signed = key != nil
	}
	w.mu.Lock()
	w.member, w.signed = true, w.signed || signed
	w.mu.Unlock()
	return true
}

// hasSigned reports whether provedMember has accepted the watcher's signature. It accepts the name alone if the member
// record has no key, or if the node has no roster.
func (w *watcher) hasSigned() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.signed
}

// recordProof records that the watcher has received this node's answer. From now on it is watching.
func (w *watcher) recordProof(proof []byte) {
	if len(proof) != ed25519.SignatureSize {
		proof = nil // not stored, because any client can send it
	}
	w.mu.Lock()
	w.proof, w.watching = bytes.Clone(proof), true
	w.mu.Unlock()
}

// watchers holds the watchers of one node in the order of their arrival. Watchers that have not proved
// membership are strangers. Their number is limited; a new stranger evicts one that had enough time for a
// proof.
type watchers struct {
	wg sync.WaitGroup // waits for the goroutines that receive from watchers

	mu  sync.Mutex
	all []*watcher
}

// Errors of watches for which there is no room. errConnectionFull does not depend on other connections.
var (
	errConnectionFull = status.Error(codes.ResourceExhausted, "too many watches on this connection: end some")
	errStrangersFull  = status.Error(codes.ResourceExhausted, "too many watches: end some")
)

// admitWatcher adds a watcher if there is room.
func (w *watchers) admitWatcher(x *watcher, proved func(*watcher) bool) error {
	if err := w.addWatcher(x); err != errStrangersFull {
		return err
	}
	// Check again, because a member may have joined since, and its proof is valid now.
	strangers := slices.DeleteFunc(w.list(), proved)
	for _, s := range strangers {
		if x.opened.Sub(s.opened) >= proofTimeout && w.removeWatcher(s) {
			close(s.evicted)
			break
		}
	}
	return w.addWatcher(x)
}

func (w *watchers) addWatcher(x *watcher) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	here, strangers := 0, 0
	for _, other := range w.all {
		if other.connection == x.connection {
			here++
		}
		if other.isStranger() {
			strangers++
		}
	}
	switch {
	case here >= watchesPerConn:
		return errConnectionFull
	case strangers >= maxStrangers:
		return errStrangersFull
	}
	w.all = append(w.all, x)
	return nil
}

func (w *watcher) isStranger() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.member
}

// removeWatcher removes x, and reports whether it was there.
func (w *watchers) removeWatcher(x *watcher) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.all, x)
	if i >= 0 {
		w.all = slices.Delete(w.all, i, i+1)
	}
	return i >= 0
}

// supersedeOlder makes the older streams of x's process arm it no more.
func (w *watchers) supersedeOlder(x *watcher) {
	for _, o := range w.list() {
		if o.armed.number < x.armed.number && o.claimedInstance() == x.instance {
			o.armed.supersede()
		}
	}
}

// claimedInstance returns the instance id that the watcher claims, "" before it has.
func (w *watcher) claimedInstance() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instance
}

func (w *watchers) list() []*watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}
