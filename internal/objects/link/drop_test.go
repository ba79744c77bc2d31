package link

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// A process that stands still keeps its connections. Calls to it end when it is dropped, and later ones connect
// again.
func TestDrop(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{})
	c, ended := began(t, t.Context(), p, s, calls)
	p.Drop("127.0.0.1:1") // an unknown address
	p.Drop(s.address)
	err := <-ended
	require.ErrorIs(t, err, ErrLost)
	c.Reply(&objectspb.Reply{}) // no caller awaits it
	_, again := began(t, t.Context(), p, s, calls)
	p.Drop(s.address)
	require.ErrorIs(t, <-again, ErrLost)
}

// A call that chose its node just before the node was dropped does not connect to it, because nothing would end
// the wait.
func TestNoCallConnectsToWhatIsGone(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	var gone atomic.Bool
	p := pool(t, Config{Present: func(address string) bool { return address == s.address && !gone.Load() }})
	_, ended := began(t, t.Context(), p, s, calls)
	gone.Store(true)
	p.DropAll(func(address string) bool { return address != s.address })
	require.Empty(t, ended, "it is there")
	p.DropAll(func(address string) bool { return address == s.address })
	require.ErrorIs(t, <-ended, ErrLost)
	_, err := p.Call(patient(t), s.address, to(nil))
	require.ErrorIs(t, err, ErrNotSent)
	_, err = p.Conn(s.address)
	require.ErrorIs(t, err, ErrNotSent)
	require.Empty(t, p.peers)
	gone.Store(false)
	began(t, t.Context(), p, s, calls)
}
