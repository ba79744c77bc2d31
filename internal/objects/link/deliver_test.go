package link

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// unconnected returns a link that is not open, with calls 1 to n, all sent except the last.
func unconnected(t testing.TB, n int, max int) *link {
	p := NewPool(Config{MaxMessage: max})
	t.Cleanup(p.Close)
	l := newLink(&peer{pool: p})
	for range n {
		w := &outgoing{done: make(chan result, 1), entry: entry{payload: make([]byte, 10), extra: frameOverhead}}
		w.cost = 100
		require.True(t, l.beginCall(w))
	}
	for id := range l.outgoing {
		if w := l.outgoing[id]; id < uint64(n) {
			l.out.remove(&w.entry)
			w.begun, w.taken = id, len(w.payload)
		}
	}
	l.written.Store(uint64(n - 1))
	return l
}

func replies(all ...*objectspb.Reply) *objectspb.LinkResponse {
	return &objectspb.LinkResponse{Replies: all}
}

func TestDeliver(t *testing.T) {
	l := unconnected(t, 6, 10)
	one := l.outgoing[1]
	ended, err := l.deliverReplies(replies(&objectspb.Reply{Id: 77},
		&objectspb.Reply{Id: 1, Response: []byte("abc"), More: true},
		&objectspb.Reply{Id: 2, Response: []byte("x")}, &objectspb.Reply{Id: 2}), nil)
	require.NoError(t, err)
	require.Len(t, ended, 1, "an id that is unknown, or not any more, is ignored")
	require.Equal(t, "x", string(ended[0].reply.Response))
	_, err = l.deliverReplies(replies(&objectspb.Reply{Id: 1, Response: []byte("defg"), Status: []byte("s"), Moved: 3}),
		nil)
	require.NoError(t, err)
	res := <-one.done
	require.NoError(t, res.err)
	require.Equal(t, "abcdefg", string(res.reply.Response))
	require.EqualValues(t, 3, res.reply.Moved)

	three, four := l.outgoing[3], l.outgoing[4]
	_, err = l.deliverReplies(replies(&objectspb.Reply{Id: 3, Response: make([]byte, 6), More: true},
		&objectspb.Reply{Id: 3, Response: make([]byte, 6), More: true},
		&objectspb.Reply{Id: 4, Response: make([]byte, 11)}), nil)
	require.NoError(t, err)
	require.Equal(t, codes.ResourceExhausted, status.Code((<-three.done).err))
	require.Equal(t, codes.ResourceExhausted, status.Code((<-four.done).err))
	require.Equal(t, []uint64{3}, l.cancels, "the rest of it is not to be sent")
	require.EqualValues(t, 200, l.inFlight)

	_, err = l.deliverReplies(replies(&objectspb.Reply{Id: 5, More: true}), nil)
	require.ErrorContains(t, err, "empty part")
	_, err = l.deliverReplies(replies(&objectspb.Reply{Id: 6}), nil)
	require.ErrorContains(t, err, "not sent")
	l.outgoing[6].begun = 6
	_, err = l.deliverReplies(replies(&objectspb.Reply{Id: 6}), nil)
	require.ErrorContains(t, err, "not sent", "it is being encoded")
}

func FuzzReply(f *testing.F) {
	f.Add(messages(replies(&objectspb.Reply{Id: 1, Response: []byte("abc"), More: true}),
		replies(&objectspb.Reply{Id: 1, Response: []byte("abc")}, &objectspb.Reply{Id: 2})))
	f.Add(messages(replies(&objectspb.Reply{Id: 1, Response: make([]byte, 101)}, &objectspb.Reply{Id: 5})))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := unconnected(t, 5, 100)
		known := len(l.outgoing)
		for _, m := range decode(data, func() *objectspb.LinkResponse { return &objectspb.LinkResponse{} }) {
			ended, err := l.deliverReplies(m, nil)
			known -= len(ended)
			require.Len(t, l.outgoing, known)
			for _, d := range ended {
				if d.err == nil {
					require.LessOrEqual(t, len(d.reply.Response), 100)
				}
			}
			for _, w := range l.outgoing {
				require.LessOrEqual(t, len(w.parts), 100)
			}
			if err != nil {
				require.Equal(t, codes.InvalidArgument, status.Code(err))
				return
			}
		}
		require.EqualValues(t, 100*known, l.inFlight)
	})
}
