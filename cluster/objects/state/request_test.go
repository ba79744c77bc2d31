package state_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
)

// increment returns a call that returns the new value.
func increment(s *counter) func(context.Context) (*wrapperspb.Int64Value, error) {
	return func(context.Context) (*wrapperspb.Int64Value, error) {
		s.Value().Value++
		return wrapperspb.Int64(s.Value().Value), nil
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	store := &state.Memory{}
	s := load(t, store, 1)
	for epoch := range owner(3) { // on this node and on others
		for _, id := range []string{"a", "b", "a"} {
			reply, err := state.Do(t.Context(), s, id, increment(s))
			require.NoError(t, err)
			require.EqualValues(t, map[string]int64{"a": 1, "b": 2}[id], reply.Value)
		}
		s = load(t, store, epoch+2)
	}
	require.EqualValues(t, 2, s.Value().Value)
	for i := range 2 { // without an id each call counts
		reply, err := state.Do(t.Context(), s, "", increment(s))
		require.NoError(t, err)
		require.EqualValues(t, 3+i, reply.Value)
	}
	require.EqualValues(t, 4, loadReply(t, store, 9))
}

// A failed call leaves nothing behind, and the same id may be used again.
func TestDoFails(t *testing.T) {
	t.Parallel()
	store := &faulty{Store: &state.Memory{}}
	s := load(t, store, 1)
	s.Value().Value = 5
	require.NoError(t, s.Save(t.Context()))
	reply, err := state.Do(t.Context(), s, "a", func(context.Context) (*wrapperspb.Int64Value, error) {
		s.Value().Value = 100
		return wrapperspb.Int64(100), errOops
	})
	require.Equal(t, errOops, err)
	require.Nil(t, reply)
	require.EqualValues(t, 5, s.Value().Value)
	require.PanicsWithValue(t, "oops", func() {
		_, _ = state.Do(t.Context(), s, "a", func(context.Context) (*wrapperspb.Int64Value, error) {
			s.Value().Value = 100
			require.NoError(t, s.Delete(t.Context()))
			panic("oops")
		})
	})
	require.EqualValues(t, 5, s.Value().Value)
	require.NoError(t, s.Err())
	store.before = state.ErrUnavailable
	_, err = state.Do(t.Context(), s, "a", increment(s))
	require.ErrorIs(t, err, state.ErrUnavailable)
	require.EqualValues(t, 5, s.Value().Value)
	got, err := state.Do(t.Context(), s, "a", increment(s))
	require.NoError(t, err)
	require.EqualValues(t, 6, got.Value)
	require.EqualValues(t, 6, loadReply(t, store, 1))
}

// The process dies after the call was carried out and before its caller has the reply.
func TestDoAfterALostAnswer(t *testing.T) {
	t.Parallel()
	store := &faulty{Store: &state.Memory{}, after: errOops}
	s := load(t, store, 1)
	_, err := state.Do(t.Context(), s, "a", increment(s))
	require.ErrorIs(t, err, state.ErrOutcomeUnknown)
	require.ErrorIs(t, err, errOops)
	require.Equal(t, codes.Unknown, status.Code(err))
	s = load(t, store, 2)
	require.EqualValues(t, 1, s.Value().Value)
	reply, err := state.Do(t.Context(), s, "a", increment(s))
	require.NoError(t, err)
	require.EqualValues(t, 1, reply.Value)
	require.EqualValues(t, 1, s.Value().Value)
}

// Another owner takes over while a call runs. The call stores nothing, and may be repeated there.
func TestDoIsOvertaken(t *testing.T) {
	t.Parallel()
	store := &faulty{Store: &state.Memory{}}
	s := load(t, store, 1)
	var next *counter
	store.onSave = func() { next = load(t, store.Store, 2) }
	_, err := state.Do(t.Context(), s, "a", increment(s))
	require.ErrorIs(t, err, state.ErrFenced)
	require.Zero(t, s.Value().Value)
	reply, err := state.Do(t.Context(), next, "a", increment(next))
	require.NoError(t, err)
	require.EqualValues(t, 1, reply.Value)
	_, err = state.Do(t.Context(), s, "a", increment(s))
	require.ErrorIs(t, err, state.ErrStale)
}

func TestDoDeletes(t *testing.T) {
	t.Parallel()
	store := &state.Memory{}
	s := load(t, store, 1)
	s.Value().Value = 5
	require.NoError(t, s.Save(t.Context()))
	closes := func(context.Context) (*wrapperspb.StringValue, error) {
		require.NoError(t, s.Delete(t.Context()))
		require.EqualValues(t, 5, s.Value().Value, "not yet")
		s.Value().Value = 6
		return wrapperspb.String("closed"), nil
	}
	for range 2 {
		reply, err := state.Do(t.Context(), s, "close", closes)
		require.NoError(t, err)
		require.Equal(t, "closed", reply.Value)
		require.False(t, s.Exists())
		require.Zero(t, s.Value().Value)
		s = load(t, store, 1)
	}
	reply, err := state.Do(t.Context(), s, "open", increment(s))
	require.NoError(t, err)
	require.EqualValues(t, 1, reply.Value)
	require.True(t, s.Exists(), "a deletion is of one call")
}

func TestDoIsNotNested(t *testing.T) {
	t.Parallel()
	s := load(t, &state.Memory{}, 1)
	reply, err := state.Do(t.Context(), s, "a", func(ctx context.Context) (*wrapperspb.Int64Value, error) {
		s.Value().Value = 1
		require.ErrorContains(t, s.Save(ctx), "fn of Do")
		require.ErrorContains(t, s.Reload(ctx), "fn of Do")
		_, err := state.Do(ctx, s, "b", increment(s))
		require.Equal(t, codes.Internal, status.Code(err))
		return increment(s)(ctx)
	})
	require.NoError(t, err)
	require.EqualValues(t, 2, reply.Value, "that has changed nothing")
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	s := load(t, &state.Memory{}, 1)
	for _, bad := range []string{strings.Repeat("x", 201), "a\n", "é"} {
		_, err := state.Do(t.Context(), s, bad, increment(s))
		require.ErrorIs(t, err, state.ErrBadRequestID)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
	}
	require.ErrorIs(t, state.CheckRequestID(""), state.ErrBadRequestID)
	require.Zero(t, s.Value().Value)
	require.NoError(t, s.Err())
	_, err := state.Do(t.Context(), s, "a", increment(s))
	require.NoError(t, err)
	_, err = state.Do(t.Context(), s, "a", func(context.Context) (*wrapperspb.StringValue, error) { panic("not run") })
	require.ErrorIs(t, err, state.ErrRequestIDReused)
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

func TestRequestIDFromMetadata(t *testing.T) {
	t.Parallel()
	_, ok := state.RequestID(t.Context())
	require.False(t, ok)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "other", "1", state.RequestIDHeader, "old")
	sent, ok := metadata.FromOutgoingContext(state.WithRequestID(ctx, "it"))
	require.True(t, ok)
	require.Equal(t, []string{"1"}, sent.Get("other"))
	id, ok := state.RequestID(metadata.NewIncomingContext(t.Context(), sent))
	require.True(t, ok)
	require.Equal(t, "it", id)
	sent, _ = metadata.FromOutgoingContext(state.WithRequestID(t.Context(), "it"))
	require.Equal(t, []string{"it"}, sent.Get(state.RequestIDHeader))
}

// An empty reply is a reply.
func TestNilReply(t *testing.T) {
	t.Parallel()
	s := load(t, &state.Memory{}, 1)
	for range 2 {
		_, err := state.Do(t.Context(), s, "a", func(context.Context) (*wrapperspb.Int64Value, error) {
			s.Value().Value++
			return nil, nil
		})
		require.NoError(t, err)
		require.EqualValues(t, 1, s.Value().Value)
	}
}
