package wire

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoiface"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Request is a LinkRequest that is sent or received. Each received message replaces the previous one, and has
// calls of its own.
type Request struct {
	Message objectspb.LinkRequest
	fast    fastMessage
	methods methodNames // of the calls received
}

// NewRequest returns an empty Request.
func NewRequest() *Request {
	r := &Request{methods: methodNames{}}
	r.fast = fastMessage{r.Message.ProtoReflect(), r}
	return r
}

// Response is a LinkResponse that is sent or received. Each received message replaces the previous one, and has
// replies of its own.
type Response struct {
	Message objectspb.LinkResponse
	fast    fastMessage
}

// NewResponse returns an empty Response.
func NewResponse() *Response {
	r := &Response{}
	r.fast = fastMessage{r.Message.ProtoReflect(), r}
	return r
}

// ProtoReflect implements proto.Message.
func (r *Request) ProtoReflect() protoreflect.Message { return &r.fast }

// ProtoReflect implements proto.Message.
func (r *Response) ProtoReflect() protoreflect.Message { return &r.fast }

// Reset empties the message; proto.Unmarshal calls it. The space of its lists is reused.
func (r *Request) Reset() {
	m := &r.Message
	clear(m.Calls)
	m.Hello, m.Calls, m.Cancelled = nil, m.Calls[:0], m.Cancelled[:0]
}

// Reset empties the message; proto.Unmarshal calls it. The space of its list is reused.
func (r *Response) Reset() {
	m := &r.Message
	clear(m.Replies)
	m.Replies = m.Replies[:0]
}

// codedMessage is a message with a codec of its own.
type codedMessage interface {
	protoreflect.ProtoMessage
	Reset()
	Size() int
	Append(b []byte) []byte
	parse(b []byte) error
}

// fastMessage is a message as reflection sees it, with its own encoding and decoding.
type fastMessage struct {
	protoreflect.Message
	coded codedMessage
}

// Interface implements protoreflect.Message.
func (f *fastMessage) Interface() protoreflect.ProtoMessage { return f.coded }

// ProtoMethods implements protoreflect.Message.
func (f *fastMessage) ProtoMethods() *protoiface.Methods { return &fastMethods }

// fastMethods are the methods of all messages of this package. No field is required, so all messages are
// initialized.
var fastMethods = protoiface.Methods{
	Flags: protoiface.SupportMarshalDeterministic | protoiface.SupportUnmarshalDiscardUnknown,
	Size: func(in protoiface.SizeInput) protoiface.SizeOutput {
		return protoiface.SizeOutput{Size: in.Message.(*fastMessage).coded.Size()}
	},
	Marshal: func(in protoiface.MarshalInput) (protoiface.MarshalOutput, error) {
		return protoiface.MarshalOutput{Buf: in.Message.(*fastMessage).coded.Append(in.Buf)}, nil
	},
	Unmarshal: func(in protoiface.UnmarshalInput) (protoiface.UnmarshalOutput, error) {
		return protoiface.UnmarshalOutput{Flags: protoiface.UnmarshalInitialized},
			in.Message.(*fastMessage).coded.parse(in.Buf)
	},
	CheckInitialized: func(protoiface.CheckInitializedInput) (protoiface.CheckInitializedOutput, error) {
		return protoiface.CheckInitializedOutput{}, nil
	},
}
