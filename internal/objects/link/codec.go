package link

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/goverse/goverse/internal/objects/link/wire"
)

// encoded is a message as it goes out. The writer encodes messages itself, so that it is known when the calls in
// them are not read any more; gRPC would do it in Send, which may then block for long.
type encoded struct {
	data mem.BufferSlice
}

// encode returns the message for a stream with the codec.
func encode(m *wire.Request) *encoded {
	pool := mem.DefaultBufferPool()
	buf := pool.Get(m.Size())
	*buf = m.Append((*buf)[:0])
	return &encoded{data: mem.BufferSlice{mem.NewBuffer(buf, pool)}}
}

// codec is gRPC's for protocol buffers, for messages that may have been encoded.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal is encoding.CodecV2's. What was encoded can be sent once.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(*encoded); ok {
		return e.data, nil
	}
	return c.CodecV2.Marshal(v)
}
