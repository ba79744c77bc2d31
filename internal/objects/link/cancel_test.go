package link

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

func TestACallWhoseContextHasEndedIsNotSent(t *testing.T) {
	p := pool(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Call(ctx, "127.0.0.1:1", to(nil))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrNotSent)
	require.Empty(t, p.peers)
}

func TestACallThatIsCancelledInTheBufferIsNotSent(t *testing.T) {
	p := pool(t, Config{})
	s, l, handled, release, wg := jam(t, p)
	before := l.buffered()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		call := to(nil)
		call.Key = []byte("cancelled")
		_, err := p.Call(ctx, s.address, call)
		ended <- err
	}()
	require.Eventually(t, func() bool { return l.buffered() == before+1 }, patience, time.Millisecond)
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrNotSent)
	require.Equal(t, before, l.buffered())
	release()
	wg.Wait()
	_, err = p.Call(patient(t), s.address, to(nil))
	require.NoError(t, err)
	require.NotContains(t, handled(), "cancelled")
}

// began returns a call in flight, which was passed to the handler and is not answered, and a channel that receives
// the error of its Call.
func began(t *testing.T, ctx context.Context, p *Pool, s *served, calls chan *Incoming) (*Incoming, chan error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := p.Call(ctx, s.address, to([]byte("began")))
		ended <- err
	}()
	return <-calls, ended
}

func TestTheHandlerIsNotifiedOfACancellation(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	c, ended := began(t, ctx, p, s, calls)
	notified := make(chan struct{})
	c.OnCancel(func() { t.Error("it was replaced") })
	c.OnCancel(func() { close(notified) })
	cancel()
	require.Equal(t, context.Canceled, <-ended)
	<-notified
	require.NoError(t, c.Context().Err(), "the link stands")
	called := false
	c.OnCancel(func() { called = true })
	require.True(t, called, "at once")
	c.Reply(&objectspb.Reply{})
	c.OnCancel(func() { t.Error("it was answered") })

	other, ended := began(t, t.Context(), p, s, calls)
	other.OnCancel(func() { t.Error("it was answered") })
	other.Reply(nil)
	require.NoError(t, <-ended)
	require.Empty(t, l(p, s).outgoing)
	require.Zero(t, l(p, s).inFlight)
}

// l returns the link to a server.
func l(p *Pool, s *served) *link {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.peers[s.address].links[0].Load()
}

func TestADeadlineEndsACall(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := p.Call(ctx, s.address, to(nil))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	select {
	case c := <-calls: // unless the deadline passed before the link was open
		require.Positive(t, c.Call.Timeout)
		require.LessOrEqual(t, c.Call.Timeout, int64(20*time.Millisecond))
		notified := make(chan struct{})
		c.OnCancel(func() { close(notified) })
		<-notified
	default:
	}
}

func TestTheEndOfALinkCancelsItsCalls(t *testing.T) {
	calls := make(chan *Incoming, 10)
	s := local(t, func(c *Incoming) { calls <- c })
	p := pool(t, Config{})
	c, ended := began(t, t.Context(), p, s, calls)
	notified := make(chan struct{})
	c.OnCancel(func() { close(notified) })
	p.Close()
	require.Equal(t, ErrClosed, <-ended)
	<-notified
	<-c.Context().Done()
	c.Reply(&objectspb.Reply{}) // it is dropped
}
