package route

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/state/format/formatheader"
)

// Headers of any content are read, or refused with a matching code.
func FuzzReadHeaders(f *testing.F) {
	f.Add("alice", "", "12345678", "7", "1", "x")
	f.Add("", "\x00\xff", "1234567", "-1", "", "")
	f.Fuzz(func(t *testing.T, key, binaryKey, chain, generation, forwarded, other string) {
		md := metadata.MD{}
		for name, value := range map[string]string{objects.KeyHeader: key, objects.BinaryKeyHeader: binaryKey,
			chainHeader: chain, generationHeader: generation, ForwardedHeader: forwarded, "other": other} {
			if value != "" {
				md.Set(name, value)
			}
		}
		in, err := ReadHeaders(metadata.NewIncomingContext(context.Background(), md))
		if err != nil {
			require.Equal(t, codes.InvalidArgument, status.Code(err))
			require.Equal(t, objects.ReasonBadCall, objects.ReasonOf(err))
			return
		}
		require.Equal(t, key+binaryKey, in.Key)
		if in.Forwarded {
			require.Len(t, in.Chain, len(chain)/8)
		} else {
			require.Equal(t, CallHeaders{Key: in.Key, Metadata: in.Metadata}, in, "of others nothing counts but the key")
		}
		require.GreaterOrEqual(t, in.Generation, int64(0))
		require.LessOrEqual(t, len(in.Metadata), 1, "no header of ours is passed on")
	})
}

// Headers that a node adds to a stream are read back unchanged.
func TestHeadersOfStreams(t *testing.T) {
	chain := []uint64{1, 1 << 63, 42}
	ctx := metadata.AppendToOutgoingContext(context.Background(), "other", "value", objects.KeyHeader, "of another object")
	md, _ := metadata.FromOutgoingContext(formatheader.Add(withStreamHeaders(ctx, "/p", &host.Call{Key: "a\x00",
		Chain: chain, Generation: 7})))
	in, err := ReadHeaders(metadata.NewIncomingContext(context.Background(), md))
	require.NoError(t, err)
	require.Equal(t, CallHeaders{Key: "a\x00", Chain: chain, Generation: 7, Forwarded: true, Prefix: "/p",
		Metadata: metadata.Pairs("other", "value")}, in)
	require.Equal(t, in.Metadata, FromHeaders(ToHeaders(in.Metadata)))
}
