package gateway

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/internal/peer/budget"
)

// sink is a stream that discards all messages.
type sink struct {
	grpc.ServerStream
	ctx context.Context
}

func (s sink) Context() context.Context { return s.ctx }

func (sink) SendMsg(any) error { return nil }

// A stream ends before its method when its object is dropped. The method may then send more, and that is not
// counted, because nothing would release it.
func TestStreamThatHasEndedHoldsNothing(t *testing.T) {
	b := budget.New(1 << 20)
	g := New(Config{Budget: b})
	s, err := g.countStream(sink{ctx: t.Context()}, nil, true, true)
	require.NoError(t, err)
	require.NoError(t, s.SendMsg(wrapperspb.Bytes(make([]byte, 1000))))
	require.NotZero(t, b.Usage().Used)
	s.releaseHold()
	require.Zero(t, b.Usage().Used)
	err = s.SendMsg(wrapperspb.Bytes(make([]byte, 10_000)))
	require.Zero(t, b.Usage().Used)
	require.Equal(t, codes.Canceled, status.Code(err))
}
