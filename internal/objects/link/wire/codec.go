package wire

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Subtype is the content-subtype of links, for grpc.CallContentSubtype: it has both sides use the codec here. The
// bytes are those of gRPC's own codec, which can also be used; but that one clears up to 1 MiB of memory for each
// message of more than 32 KiB, in each of its two directions and at both ends.
const Subtype = "goverse-link"

func init() { encoding.RegisterCodecV2(codec{}) }

// codec is gRPC's for protocol buffers, but for what this package encodes and decodes.
type codec struct{}

// Name implements encoding.CodecV2.
func (codec) Name() string { return Subtype }

// Marshal implements encoding.CodecV2. What is Encoded can be sent once.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *Encoded:
		return m.data, nil
	case coded:
		return Encode(m).data, nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(coded)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
	}
	m.Reset()
	if len(data) == 1 {
		return m.parse(data[0].ReadOnlyData())
	}
	b := space.Get(data.Len())
	defer space.Put(b)
	data.CopyTo(*b)
	return m.parse(*b)
}

// Encoded is a message as it goes out, for those who need to know when what is in it is not read any more.
type Encoded struct{ data mem.BufferSlice }

// Encode encodes a message, for a stream of that Subtype.
func Encode(m interface {
	Size() int
	Append(b []byte) []byte
}) *Encoded {
	b := space.Get(m.Size())
	*b = m.Append((*b)[:0])
	return &Encoded{data: mem.BufferSlice{mem.NewBuffer(b, &space)}}
}
