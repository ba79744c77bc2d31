package client_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"

	"github.com/goverse/goverse/internal/state/format/formatheader"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// A watch of the routes states its format.
func TestWatchesStateTheFormat(t *testing.T) {
	t.Parallel()
	stated := make(chan []string, 1)
	n := newScripted(t, grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if info.FullMethodName == objectspb.Objects_WatchRoutes_FullMethodName {
			select {
			case stated <- info.Header.Get(formatheader.Name):
			default: // of a later watch
			}
		}
		return ctx, nil
	}))
	n.say(1, n.address, "")
	switchBackoff(t, n)
	require.Equal(t, []string{"1"}, <-stated)
}
