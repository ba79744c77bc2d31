package link

import (
	"errors"
	"maps"
	"slices"
)

// errDropped is why a link ends whose node is gone.
var errDropped = errors.New("the node is not there any more")

// Drop closes the link and the connection to an address whose process is gone, although its connections may not show
// it: calls under way fail with ErrLost or ErrNotSent, and streams on the connection with CANCELED. It does not wait.
// The next call to the address connects anew.
func (p *Pool) Drop(address string) {
	p.mu.Lock()
	peer := p.peers[address]
	delete(p.peers, address)
	p.mu.Unlock()
	if peer != nil {
		peer.close(errDropped)
	}
}

// DropAll drops all addresses for which gone reports true. gone is called without a lock.
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
