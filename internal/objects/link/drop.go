package link

import (
	"errors"
	"maps"
	"slices"
)

// errDropped is the reason why a link to a node that is gone ends.
var errDropped = errors.New("the node is not there any more")

// Drop closes the link and the connections to an address where the process is gone, even if its connections do
// not show that yet. Calls in flight fail with ErrLost or ErrNotSent, and streams on the connections with
// CANCELED. Drop does not block. The next call to the address connects again.
func (p *Pool) Drop(address string) {
	p.mu.Lock()
	peer := p.peers[address]
	delete(p.peers, address)
	p.mu.Unlock()
	if peer != nil {
		peer.close(errDropped)
	}
}

// DropAll drops all addresses for which gone returns true. It calls gone without holding a lock.
func (p *Pool) DropAll(gone func(address string) bool) {
	p.mu.RLock()
	addresses := slices.Collect(maps.Keys(p.peers))
	p.mu.RUnlock()
	for _, address := range addresses {
		if gone(address) {
			p.Drop(address)
		}
	}
}
