package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Each codec reads the output of the other one, in one piece or in several.
func TestCodecsAgree(t *testing.T) {
	own, other := encoding.GetCodecV2(Subtype), encoding.GetCodecV2("proto")
	for _, m := range requests {
		out := NewRequest()
		out.Message.Hello, out.Message.Calls, out.Message.Cancelled = m.Hello, m.Calls, m.Cancelled
		for _, pair := range [][2]encoding.CodecV2{{own, own}, {own, other}, {other, own}} {
			data, err := pair[0].Marshal(out)
			require.NoError(t, err)
			all := data.Materialize()
			pieces := mem.BufferSlice{mem.SliceBuffer(all[:len(all)/2]), mem.SliceBuffer(all[len(all)/2:])}
			for _, data := range []mem.BufferSlice{data, pieces} {
				in := NewRequest()
				require.NoError(t, pair[1].Unmarshal(data, in))
				require.True(t, proto.Equal(m, &in.Message))
			}
			data.Free()
		}
		var generated objectspb.LinkRequest
		data, err := own.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, own.Unmarshal(data, &generated), "messages of others are gRPC's own codec's")
		require.True(t, proto.Equal(m, &generated))
	}
}

func TestPool(t *testing.T) {
	var p bufferPool
	for _, n := range []int{0, 1, 1024, 1025, 4096, 1 << 20, 1<<20 + 1, 4 << 20, 4<<20 + 1} {
		for range 3 {
			b := p.Get(n)
			require.Len(t, *b, n)
			require.True(t, n > 4<<20 || cap(*b) >= 1024 && cap(*b) < max(2*n, 1025), "%d for %d", cap(*b), n)
			p.Put(b)
		}
	}
	odd := make([]byte, 0, 1500)
	p.Put(&odd) // it belongs to no class
	require.GreaterOrEqual(t, cap(*p.Get(2000)), 2000)
}
