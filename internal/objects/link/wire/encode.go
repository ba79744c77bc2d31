package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Field numbers, as in objects.proto.
const (
	requestHello, requestCalls, requestCancelled = 1, 2, 3

	helloPrefix = 1

	callID, callMethod, callKey, callRequest, callMore      = 1, 2, 3, 4, 5
	callTimeout, callMetadata, callChain, callMapGeneration = 6, 7, 8, 9
	replyID, replyResponse, replyMore, replyStatus          = 1, 2, 3, 4
	replyHeader, replyTrailer, replyMoved                   = 5, 6, 7
	responseReplies, headerName, headerValue                = 1, 1, 2
)

// All numbers are below 16, so a tag is one byte.

// Size returns the number of bytes that Append appends.
func (r *Request) Size() (n int) {
	m := &r.Message
	if m.Hello != nil {
		n += sizeOfMessage(sizeOfHello(m.Hello))
	}
	for _, c := range m.Calls {
		n += sizeOfMessage(sizeOfCall(c))
	}
	if len(m.Cancelled) > 0 {
		n += sizeOfMessage(sizeOfIDs(m.Cancelled))
	}
	return n
}

// Append appends the message to b. The peer refuses a method or a header name that is not valid UTF-8.
func (r *Request) Append(b []byte) []byte {
	m := &r.Message
	if m.Hello != nil {
		b = appendHead(b, requestHello, sizeOfHello(m.Hello))
		b = appendString(b, helloPrefix, m.Hello.Prefix)
	}
	for _, c := range m.Calls {
		b = appendHead(b, requestCalls, sizeOfCall(c))
		b = appendCall(b, c)
	}
	if len(m.Cancelled) > 0 {
		b = appendHead(b, requestCancelled, sizeOfIDs(m.Cancelled))
		for _, id := range m.Cancelled {
			b = protowire.AppendVarint(b, id)
		}
	}
	return b
}

// Size returns the number of bytes that Append appends.
func (r *Response) Size() (n int) {
	for _, reply := range r.Message.Replies {
		n += sizeOfMessage(sizeOfReply(reply))
	}
	return n
}

// Append appends the message to b. The peer refuses a header name that is not valid UTF-8.
func (r *Response) Append(b []byte) []byte {
	for _, reply := range r.Message.Replies {
		b = appendHead(b, responseReplies, sizeOfReply(reply))
		b = appendReply(b, reply)
	}
	return b
}

func sizeOfHello(h *objectspb.Hello) int { return sizeOfBytes(len(h.GetPrefix())) }

func sizeOfIDs(ids []uint64) (n int) {
	for _, id := range ids {
		n += protowire.SizeVarint(id)
	}
	return n
}

func sizeOfCall(c *objectspb.Call) int {
	if c == nil {
		return 0
	}
	return sizeOfVarint(c.Id) + sizeOfBytes(len(c.Method)) + sizeOfBytes(len(c.Key)) + sizeOfBytes(len(c.Request)) +
		sizeOfBool(c.More) + sizeOfVarint(uint64(c.Timeout)) + sizeOfHeaders(c.Metadata) + sizeOfBytes(8*len(c.Chain)) +
		sizeOfVarint(uint64(c.Generation))
}

func appendCall(b []byte, c *objectspb.Call) []byte {
	if c == nil {
		return b
	}
	b = appendVarint(b, callID, c.Id)
	b = appendString(b, callMethod, c.Method)
	b = appendBytes(b, callKey, c.Key)
	b = appendBytes(b, callRequest, c.Request)
	b = appendBool(b, callMore, c.More)
	b = appendVarint(b, callTimeout, uint64(c.Timeout))
	b = appendHeaders(b, callMetadata, c.Metadata)
	if len(c.Chain) > 0 {
		b = appendHead(b, callChain, 8*len(c.Chain))
		for _, turn := range c.Chain {
			b = protowire.AppendFixed64(b, turn)
		}
	}
	return appendVarint(b, callMapGeneration, uint64(c.Generation))
}

func sizeOfReply(r *objectspb.Reply) int {
	if r == nil {
		return 0
	}
	return sizeOfVarint(r.Id) + sizeOfBytes(len(r.Response)) + sizeOfBool(r.More) + sizeOfBytes(len(r.Status)) +
		sizeOfHeaders(r.Header) + sizeOfHeaders(r.Trailer) + sizeOfVarint(uint64(r.Moved))
}

func appendReply(b []byte, r *objectspb.Reply) []byte {
	if r == nil {
		return b
	}
	b = appendVarint(b, replyID, r.Id)
	b = appendBytes(b, replyResponse, r.Response)
	b = appendBool(b, replyMore, r.More)
	b = appendBytes(b, replyStatus, r.Status)
	b = appendHeaders(b, replyHeader, r.Header)
	b = appendHeaders(b, replyTrailer, r.Trailer)
	return appendVarint(b, replyMoved, uint64(r.Moved))
}

func sizeOfHeaders(headers []*objectspb.Header) (n int) {
	for _, h := range headers {
		n += sizeOfMessage(sizeOfHeader(h))
	}
	return n
}

func sizeOfHeader(h *objectspb.Header) int {
	return sizeOfBytes(len(h.GetName())) + sizeOfBytes(len(h.GetValue()))
}

func appendHeaders(b []byte, field protowire.Number, headers []*objectspb.Header) []byte {
	for _, h := range headers {
		b = appendHead(b, field, sizeOfHeader(h))
		b = appendString(b, headerName, h.GetName())
		b = appendBytes(b, headerValue, h.GetValue())
	}
	return b
}

// sizeOfMessage returns the size of a field with a message of n bytes. An empty message is encoded, too.
func sizeOfMessage(n int) int { return 1 + protowire.SizeBytes(n) }

// The following functions omit fields with a zero value.

func sizeOfBytes(n int) int {
	if n == 0 {
		return 0
	}
	return sizeOfMessage(n)
}

func sizeOfVarint(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

func sizeOfBool(v bool) int {
	if !v {
		return 0
	}
	return 2
}

// appendHead appends the tag and the length of a field of n bytes.
func appendHead(b []byte, field protowire.Number, n int) []byte {
	b = append(b, byte(protowire.EncodeTag(field, protowire.BytesType)))
	return protowire.AppendVarint(b, uint64(n))
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return append(appendHead(b, field, len(v)), v...)
}

func appendString(b []byte, field protowire.Number, v string) []byte {
	if len(v) == 0 {
		return b
	}
	return append(appendHead(b, field, len(v)), v...)
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = append(b, byte(protowire.EncodeTag(field, protowire.VarintType)))
	return protowire.AppendVarint(b, v)
}

func appendBool(b []byte, field protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return appendVarint(b, field, 1)
}
