package host

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
	"github.com/goverse/goverse/internal/test/probepb"
)

// A method or a factory returns the error of a call that it made. The ErrorInfo of that call does not apply to
// its own call.
func TestErrorOfANestedCall(t *testing.T) {
	for _, reason := range []string{objects.ReasonNotStarted, objects.ReasonMayHaveStarted} {
		nested := status.Convert(hosted.Error(codes.Unavailable, reason, "elsewhere"))
		nested, err := nested.WithDetails(&errdetails.ResourceInfo{ResourceName: "theirs"})
		require.NoError(t, err)
		s := newSite(t, nil)
		s.world.SetAction("call", func(context.Context, *probepb.Probe, *probepb.DoRequest) (*probepb.DoResponse, error) {
			return nil, nested.Err()
		})
		err = s.do(s.ctx(), "a", "call")
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Equal(t, "elsewhere", status.Convert(err).Message())
		require.Empty(t, objects.ReasonOf(err))
		require.False(t, objects.NotStarted(err))
		require.Len(t, status.Convert(err).Details(), 1, "what is the method's own stays")
		require.Len(t, nested.Details(), 2, "the method's error is its own")

		s.world.OnActivate = func(context.Context, *objects.Object) error { return nested.Err() }
		err = s.do(s.ctx(), "b", "call")
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Equal(t, objects.ReasonActivation, objects.ReasonOf(err))
		require.True(t, objects.NotStarted(err))

		s.world.OnActivate = func(context.Context, *objects.Object) error { return errors.New("no database") }
		err = s.do(s.ctx(), "c", "call")
		require.ErrorContains(t, err, "no database")
		require.Equal(t, objects.ReasonActivation, objects.ReasonOf(err))
	}
}
