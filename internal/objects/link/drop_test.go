package link

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// A process that stands still keeps its connections; calls to it end when it is dropped, and later ones connect anew.
func TestDrop(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{})
	c, ended := began(t, t.Context(), p, s, calls)
	p.Drop("127.0.0.1:1") // of which nothing is known
	p.Drop(s.address)
	err := <-ended
	require.ErrorIs(t, err, ErrLost)
	c.Reply(&objectspb.Reply{}) // which nobody awaits
	_, again := began(t, t.Context(), p, s, calls)
	p.Drop(s.address)
	require.ErrorIs(t, <-again, ErrLost)
}
