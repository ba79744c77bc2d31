package formatheader

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
)

// A call that is passed on states the format of the process that passes it on.
func TestAddReplaces(t *testing.T) {
	ctx := metadata.AppendToOutgoingContext(context.Background(), Name, "7", "other", "kept")
	md, _ := metadata.FromOutgoingContext(Add(ctx))
	require.Equal(t, metadata.MD{Name: {"1"}, "other": {"kept"}}, md)
	md, _ = metadata.FromOutgoingContext(Add(context.Background()))
	require.Equal(t, metadata.MD{Name: {"1"}}, md)
}
