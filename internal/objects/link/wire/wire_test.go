package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

var requests = []*objectspb.LinkRequest{
	{},
	{Hello: &objectspb.Hello{}},
	{Hello: &objectspb.Hello{Prefix: "/goverse"}},
	{Cancelled: []uint64{1, 1 << 40, 0}},
	{Calls: []*objectspb.Call{{}}},
	{Calls: []*objectspb.Call{
		{Id: 1, Method: "/a.B/C", Key: []byte("alice"), Request: []byte{1}, Timeout: 30e9, Generation: 7},
		{Id: 1 << 63, Key: bytes.Repeat([]byte("k"), 1024), Request: bytes.Repeat([]byte("x"), 300_000), More: true},
		{Timeout: -1, Generation: -1, Chain: []uint64{0, 1, 1<<64 - 1},
			Metadata: []*objectspb.Header{{}, {Name: "a"}, {Name: "b", Value: []byte{0, 255}}}},
	}, Cancelled: []uint64{5}},
}

var responses = []*objectspb.LinkResponse{
	{},
	{Replies: []*objectspb.Reply{{}}},
	{Replies: []*objectspb.Reply{
		{Id: 1, Response: []byte("abc")},
		{Id: 2, Response: bytes.Repeat([]byte("x"), 300_000), More: true},
		{Id: 3, Status: []byte{8, 14}, Moved: 1 << 40, Header: []*objectspb.Header{{Name: "a", Value: []byte("1")}},
			Trailer: []*objectspb.Header{{Name: "b"}, {}}},
	}},
}

// This package encodes the same bytes as the generated code, and each reads the other's.
func TestEncodesAsTheGeneratedCodeDoes(t *testing.T) {
	in, out := NewRequest(), NewRequest()
	for _, m := range requests {
		out.Message.Hello, out.Message.Calls, out.Message.Cancelled = m.Hello, m.Calls, m.Cancelled
		requireSame(t, m, out, in)
		require.True(t, proto.Equal(m, &in.Message), fmt.Sprint(&in.Message))
	}
	back, forth := NewResponse(), NewResponse()
	for _, m := range responses {
		forth.Message.Replies = m.Replies
		requireSame(t, m, forth, back)
		require.True(t, proto.Equal(m, &back.Message), fmt.Sprint(&back.Message))
	}
}

// requireSame encodes m by generated code and as out, and reads it as in.
func requireSame(t *testing.T, m proto.Message, out, in codedMessage) {
	t.Helper()
	generated, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	own, err := proto.Marshal(out)
	require.NoError(t, err)
	require.Equal(t, generated, own)
	require.Equal(t, len(own), proto.Size(out))
	require.Equal(t, append([]byte("before"), own...), out.Append([]byte("before")))
	require.NoError(t, proto.Unmarshal(generated, in))
}

// Interceptors that log messages see their contents.
func TestMessagesAreSeenByReflection(t *testing.T) {
	r := NewRequest()
	r.Message.Hello = &objectspb.Hello{Prefix: "/seen"}
	require.Equal(t, "goverse.objects.v1.LinkRequest", string(r.ProtoReflect().Descriptor().FullName()))
	hello := r.ProtoReflect().Get(r.ProtoReflect().Descriptor().Fields().ByName("hello")).Message()
	require.Equal(t, "/seen", hello.Get(hello.Descriptor().Fields().ByName("prefix")).String())
}

// Other programs that fill a message clear it first.
func TestMessagesAreCleared(t *testing.T) {
	r := NewRequest()
	for range 2 {
		require.NoError(t, protojson.Unmarshal([]byte(`{"calls":[{"id":"1"}],"cancelled":["2"]}`), r))
		require.Len(t, r.Message.Calls, 1)
		require.Len(t, r.Message.Cancelled, 1)
	}
}

// A reused call or reply holds nothing of its earlier contents.
func TestWhatIsUsedAgainIsEmpty(t *testing.T) {
	r := NewRequest()
	require.NoError(t, proto.Unmarshal(marshal(t, requests[5]), r))
	full := r.Message.Calls[2]
	FreeCall(full)
	require.True(t, proto.Equal(&objectspb.Call{}, full), fmt.Sprint(full))
	FreeCall(nil)

	reply := proto.Clone(responses[2].Replies[2]).(*objectspb.Reply)
	FreeReply(reply)
	require.True(t, proto.Equal(&objectspb.Reply{}, reply), fmt.Sprint(reply))
	FreeReply(nil)
}

func TestMethodsThatAreKeptAreBounded(t *testing.T) {
	n := methodNames{}
	for i := range 2 * maxNames {
		name := fmt.Sprint("/a/", i)
		require.Equal(t, name, n.intern([]byte(name)))
	}
	require.Len(t, n, maxNames)
	require.LessOrEqual(t, 32*maxNames*maxNameLength, 1<<20, "bytes for the 32 links of a connection")
	long := bytes.Repeat([]byte("m"), maxNameLength+1)
	n = methodNames{}
	require.Equal(t, string(long), n.intern(long))
	require.Empty(t, n)
}

// An empty element takes two bytes on the wire, and a hundred times as much in memory. One message each on 32
// links of one connection would take gigabytes.
func TestMessagesOfEmptyThingsAreRefused(t *testing.T) {
	empty := func(tag byte) []byte { return bytes.Repeat([]byte{tag, 0}, 2<<20-8) }
	inside := func(message, list byte) []byte {
		return append(protowire.AppendVarint([]byte{message}, 4<<20-16), empty(list)...)
	}
	for name, c := range map[string]struct {
		in   codedMessage
		data []byte
	}{
		"calls":                   {NewRequest(), empty(requestCalls<<3 | 2)},
		"headers of a call":       {NewRequest(), inside(requestCalls<<3|2, callMetadata<<3|2)},
		"ids":                     {NewRequest(), inside(requestCancelled<<3|2, 1)},
		"replies":                 {NewResponse(), empty(responseReplies<<3 | 2)},
		"headers of a reply":      {NewResponse(), inside(responseReplies<<3|2, replyHeader<<3|2)},
		"trailers of a reply":     {NewResponse(), inside(responseReplies<<3|2, replyTrailer<<3|2)},
		"ids that are not packed": {NewRequest(), empty(requestCancelled << 3)},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := proto.Unmarshal(c.data, c.in)
			runtime.ReadMemStats(&after)
			took := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d MB for %d MB", took>>20, len(c.data)>>20)
			require.ErrorIs(t, err, errMany)
			require.Less(t, took, uint64(50<<20))
		})
	}
}

func marshal(t require.TestingT, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	return b
}

// Any input is refused, or read as the generated code reads it.
func FuzzRequest(f *testing.F) {
	for _, m := range requests {
		f.Add(marshal(f, m))
	}
	f.Add([]byte{0x12, 0x03, 0x12, 0x01, 0xff})       // a method that is not UTF-8
	f.Add([]byte{0x1a, 0x02, 0x05, 0x06, 0x18, 0x07}) // packed ids, and an unpacked one
	f.Fuzz(func(t *testing.T, data []byte) {
		own, generated := NewRequest(), &objectspb.LinkRequest{}
		requireReadAlike(t, data, own, &own.Message, generated)
	})
}

// Any input is refused, or read as the generated code reads it.
func FuzzResponse(f *testing.F) {
	for _, m := range responses {
		f.Add(marshal(f, m))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		own, generated := NewResponse(), &objectspb.LinkResponse{}
		requireReadAlike(t, data, own, &own.Message, generated)
	})
}

func requireReadAlike(t *testing.T, data []byte, own codedMessage, message, generated proto.Message) {
	want := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, generated)
	got := proto.Unmarshal(data, own)
	require.Equal(t, want == nil, got == nil, "%v, and the generated code: %v", got, want)
	if got != nil {
		return
	}
	require.True(t, proto.Equal(generated, message), "%v, and the generated code: %v", message, generated)
	require.Equal(t, len(own.Append(nil)), own.Size())
	again := marshal(t, own)
	require.NoError(t, proto.Unmarshal(again, own))
	require.True(t, proto.Equal(generated, message))
}
