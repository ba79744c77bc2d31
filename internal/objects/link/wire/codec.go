package wire

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Subtype is the content-subtype of links, for grpc.CallContentSubtype. It makes both sides use the codec of
// this package. gRPC's own codec produces the same bytes and also works. But it clears up to 1 MiB of memory
// for each message of more than 32 KiB, in both directions and at both ends.
const Subtype = "goverse-link"

func init() { encoding.RegisterCodecV2(codec{}) }

// codec is gRPC's codec for protocol buffers, with its own encoding of this package's messages.
type codec struct{}

// Name implements encoding.CodecV2.
func (codec) Name() string { return Subtype }

// Marshal implements encoding.CodecV2. An EncodedMessage can be sent once.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *EncodedMessage:
		return m.data, nil
	case codedMessage:
		return EncodeMessage(m).data, nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(codedMessage)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
	}
	m.Reset()
	if len(data) == 1 {
		return m.parse(data[0].ReadOnlyData())
	}
	b := buffers.Get(data.Len())
	defer buffers.Put(b)
	data.CopyTo(*b)
	return m.parse(*b)
}

// EncodedMessage is a message that is already encoded, for callers that must know when its contents are no longer
// read.
type EncodedMessage struct{ data mem.BufferSlice }

// EncodeMessage encodes a message for a stream with the content-subtype Subtype.
func EncodeMessage(m interface {
	Size() int
	Append(b []byte) []byte
}) *EncodedMessage {
	b := buffers.Get(m.Size())
	*b = m.Append((*b)[:0])
	return &EncodedMessage{data: mem.BufferSlice{mem.NewBuffer(b, &buffers)}}
}
