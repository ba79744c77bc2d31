package link

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// The deadline applies to calls if their context has none. It is sent with the call, and the node is notified
// when it has passed.
func TestCallBy(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{})
	for range 3 { // a timer is reused
		_, err := p.CallBy(context.Background(), time.Now().Add(20*time.Millisecond), s.address, to(nil))
		require.Equal(t, context.DeadlineExceeded, err)
		c := <-calls
		require.Positive(t, c.Call.GetTimeout())
		require.LessOrEqual(t, c.Call.GetTimeout(), int64(20*time.Millisecond))
		cancelled := make(chan bool)
		c.OnCancel(func() { close(cancelled) })
		<-cancelled
		c.Reply(&objectspb.Reply{})
	}
	go func() {
		c := <-calls
		require.Greater(t, c.Call.GetTimeout(), int64(time.Second), "the context's own")
		c.Reply(&objectspb.Reply{})
	}()
	_, err := p.CallBy(patient(t), time.Now(), s.address, to(nil))
	require.NoError(t, err)
}
