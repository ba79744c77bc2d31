package link

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

func request(calls ...*objectspb.Call) *objectspb.LinkRequest {
	return &objectspb.LinkRequest{Calls: calls}
}

func hello(prefix string) *objectspb.LinkRequest {
	return &objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: prefix}}
}

func begun(id uint64, n int, more bool) *objectspb.Call {
	return &objectspb.Call{Id: id, Method: "/a/B", Key: []byte("k"), Request: make([]byte, n), More: more}
}

func part(id uint64, n int, more bool) *objectspb.Call {
	return &objectspb.Call{Id: id, Request: make([]byte, n), More: more}
}

func TestInboundEndsTheLinkOfAPeerThatDoesNotFollowTheProtocol(t *testing.T) {
	many := request()
	for id := range uint64(recvParts + 1) {
		many.Calls = append(many.Calls, begun(id, 1, true))
	}
	for _, c := range []struct {
		name     string
		messages []*objectspb.LinkRequest
		code     codes.Code
		text     string
	}{
		{"nothing", []*objectspb.LinkRequest{{}}, codes.InvalidArgument, "no Hello"},
		{"no Hello", []*objectspb.LinkRequest{request(begun(1, 1, false))}, codes.InvalidArgument, "no Hello"},
		{"two Hellos", []*objectspb.LinkRequest{hello("p"), hello("p")}, codes.InvalidArgument, "second Hello"},
		{"another cluster", []*objectspb.LinkRequest{hello("other")}, codes.FailedPrecondition, `"other"`},
		{"empty", []*objectspb.LinkRequest{hello("p"), {}}, codes.InvalidArgument, "empty message"},
		{"nil call", []*objectspb.LinkRequest{hello("p"), request(nil)}, codes.InvalidArgument, "no method"},
		{"in flight", []*objectspb.LinkRequest{hello("p"), request(begun(1, 1, false)), request(begun(1, 1, false))},
			codes.InvalidArgument, "in flight"},
		{"unknown part", []*objectspb.LinkRequest{hello("p"), request(part(1, 1, true))}, codes.InvalidArgument, "no part"},
		{"begins twice", []*objectspb.LinkRequest{hello("p"), request(begun(1, 1, true), begun(1, 1, true))},
			codes.InvalidArgument, "missing"},
		{"empty part", []*objectspb.LinkRequest{hello("p"), request(begun(1, 1, true), part(1, 0, true))},
			codes.InvalidArgument, "empty part"},
		{"empty first part", []*objectspb.LinkRequest{hello("p"), request(begun(1, 0, true))},
			codes.InvalidArgument, "empty part"},
		{"too much", []*objectspb.LinkRequest{hello("p"), request(&objectspb.Call{Id: 1, Method: "/a/B",
			Metadata: []*objectspb.Header{{Value: make([]byte, maxExtra)}}})}, codes.InvalidArgument, "beside its request"},
		{"too many", []*objectspb.LinkRequest{hello("p"), many}, codes.InvalidArgument, "at a time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := newInboundCalls("p", 100)
			for i, m := range c.messages {
				a, err := in.receiveMessage(m)
				if i < len(c.messages)-1 {
					require.NoError(t, err)
					continue
				}
				require.Equal(t, c.code, status.Code(err), "%v", err)
				require.ErrorContains(t, err, c.text)
				require.Empty(t, a)
				require.LessOrEqual(t, in.begun, uint64(1), "what was not handled does not count")
			}
		})
	}
}

func TestInboundJoinsParts(t *testing.T) {
	in := newInboundCalls("", 10)
	_, err := in.receiveMessage(hello(""))
	require.NoError(t, err)
	first := begun(1, 0, true)
	first.Request = []byte("abc")
	a, err := in.receiveMessage(request(first, begun(2, 1, true)))
	require.NoError(t, err)
	require.Empty(t, a.calls)
	a, err = in.receiveMessage(request(begun(3, 2, false), &objectspb.Call{Id: 1, Request: []byte("defg"), More: true}))
	require.NoError(t, err)
	require.Len(t, a.calls, 1)
	a, err = in.receiveMessage(request(&objectspb.Call{Id: 1, Request: []byte("hij")}))
	require.NoError(t, err)
	require.Equal(t, "abcdefghij", string(a.calls[0].Call.Request))
	require.Equal(t, "/a/B", a.calls[0].Call.Method)
	require.False(t, a.calls[0].Call.More)
	require.Len(t, in.calls, 2)
	a, err = in.receiveMessage(&objectspb.LinkRequest{Cancelled: []uint64{1, 2, 99}})
	require.NoError(t, err)
	require.Len(t, a.cancelled, 1)
	require.Empty(t, in.partials)
	_, err = in.receiveMessage(request(part(2, 1, false)))
	require.Error(t, err, "what was cancelled is not continued")
	require.EqualValues(t, 3, in.begun)
}

func TestInboundRefusesWhatIsTooLargeOnce(t *testing.T) {
	in := newInboundCalls("", 10)
	_, err := in.receiveMessage(hello(""))
	require.NoError(t, err)
	a, err := in.receiveMessage(request(begun(1, 11, false), begun(2, 11, true), begun(3, 10, true), begun(4, 10, false)))
	require.NoError(t, err)
	require.Equal(t, []uint64{1, 2}, a.refused)
	require.Len(t, a.calls, 1)
	a, err = in.receiveMessage(request(part(2, 5, true), part(3, 1, true)))
	require.NoError(t, err)
	require.Equal(t, []uint64{3}, a.refused)
	require.Nil(t, in.partials[2].call, "nothing is kept")
	a, err = in.receiveMessage(request(part(2, 5, false), part(3, 1, true)))
	require.NoError(t, err)
	require.Empty(t, a.refused)
	_, err = in.receiveMessage(&objectspb.LinkRequest{Cancelled: []uint64{3}})
	require.NoError(t, err)
	require.Empty(t, in.partials)
	require.Len(t, in.calls, 1)
}

// messages joins the texts, each preceded by its length.
func messages(all ...proto.Message) (out []byte) {
	for _, m := range all {
		text, _ := proto.Marshal(m)
		out = protowire.AppendBytes(out, text)
	}
	return out
}

// decode reverses messages.
func decode[T proto.Message](data []byte, empty func() T) (out []T) {
	for len(data) > 0 {
		text, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return out
		}
		data = data[n:]
		if m := empty(); proto.Unmarshal(text, m) == nil {
			out = append(out, m)
		}
	}
	return out
}

func FuzzLinkRequest(f *testing.F) {
	f.Add(messages(hello("p"), request(begun(1, 3, false), begun(2, 3, true)), request(part(2, 3, false))))
	f.Add(messages(hello("p"), request(begun(1, 3, true), part(1, 90, true), part(1, 90, false))))
	f.Add(messages(hello("p"), request(begun(1, 101, true)), &objectspb.LinkRequest{Cancelled: []uint64{1, 2}},
		request(begun(1, 1, false), begun(1, 1, false))))
	f.Add(messages(request(nil)))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := newInboundCalls("p", 100)
		for _, m := range decode(data, func() *objectspb.LinkRequest { return &objectspb.LinkRequest{} }) {
			a, err := in.receiveMessage(m)
			if err != nil {
				require.Contains(t, []codes.Code{codes.InvalidArgument, codes.FailedPrecondition}, status.Code(err))
				return
			}
			require.LessOrEqual(t, len(in.partials), recvParts)
			for id, p := range in.partials {
				if require.Nil(t, in.calls[id]); p.call != nil {
					require.LessOrEqual(t, len(p.call.Request), 100)
				}
			}
			for _, c := range a.calls {
				require.LessOrEqual(t, len(c.Call.Request), 100)
				require.NotEmpty(t, c.Call.Method)
				require.False(t, c.Call.More)
			}
			for _, c := range a.cancelled {
				require.NotSame(t, c, in.calls[c.id])
			}
		}
	})
}

func TestExtendKeepsWithinTheLimit(t *testing.T) {
	var all []byte
	for range 10 {
		all = appendPart(all, bytes.Repeat([]byte("x"), 10), 100)
	}
	require.Len(t, all, 100)
	require.LessOrEqual(t, cap(all), 200)
}
