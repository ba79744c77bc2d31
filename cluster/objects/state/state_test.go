package state_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errOops = errors.New("oops")

// owner is one activation of the object "it".
type owner int64

func (owner) Service() string { return "test.Counters" }
func (owner) Key() string     { return "it" }
func (o owner) Epoch() int64  { return int64(o) }

type counter = state.State[*wrapperspb.Int64Value]

// faulty is a store with a next save that fails, before or after it was carried out.
type faulty struct {
	state.Store
	before, after error
	onSave        func()
}

func (f *faulty) Save(ctx context.Context, ref state.Ref, w state.Write) (version int64, err error) {
	if f.onSave != nil {
		f.onSave()
		f.onSave = nil
	}
	if err, f.before = f.before, nil; err != nil {
		return 0, err
	}
	version, err = f.Store.Save(ctx, ref, w)
	if after := f.after; after != nil {
		f.after = nil
		return 0, after
	}
	return version, err
}

// droppable is an owner that can be deactivated.
type droppable struct {
	owner
	deactivated *int
}

func (a droppable) Deactivate() { *a.deactivated++ }

// A State that becomes stale deactivates its object. One that can still be used does not.
func TestStaleStateDeactivates(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		stale bool
	}{
		{"fenced", state.ErrFenced, true},
		{"conflict", state.ErrConflict, true},
		{"outcome unknown", state.ErrOutcomeUnknown, true},
		{"unavailable", state.ErrUnavailable, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			deactivated, store := 0, &faulty{Store: &state.Memory{}, before: c.err}
			s, err := state.Load(t.Context(), store, droppable{1, &deactivated}, &wrapperspb.Int64Value{})
			require.NoError(t, err)
			require.ErrorIs(t, s.Save(t.Context()), c.err)
			require.Equal(t, c.stale, s.Err() != nil)
			require.Equal(t, c.stale, deactivated == 1)
		})
	}
}

func load(t *testing.T, store state.Store, epoch owner) *counter {
	t.Helper()
	s, err := state.Load(t.Context(), store, epoch, &wrapperspb.Int64Value{})
	require.NoError(t, err)
	return s
}

// loadReply returns the value that the next activation would find.
func loadReply(t *testing.T, store state.Store, epoch owner) int64 {
	t.Helper()
	return load(t, store, epoch).Value().Value
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	store := &state.Memory{}
	s := load(t, store, 1)
	require.False(t, s.Exists())
	require.Equal(t, state.Ref{Service: "test.Counters", Key: "it"}, s.Ref())
	require.EqualValues(t, 1, s.Epoch())
	value := s.Value()
	for i := range int64(3) {
		s.Value().Value = i + 10
		require.NoError(t, s.Save(t.Context()))
		require.True(t, s.Exists())
	}
	require.Same(t, value, s.Value())
	require.NoError(t, s.Err())
	s = load(t, store, 1)
	require.True(t, s.Exists())
	require.EqualValues(t, 12, s.Value().Value)
	s.Value().Value = 99
	s.Revert()
	require.EqualValues(t, 12, s.Value().Value)
	require.NoError(t, s.Delete(t.Context()))
	require.False(t, s.Exists())
	require.Zero(t, s.Value().Value)
	require.False(t, load(t, store, 1).Exists())
}

// An object without a state has its default value, and has it again when its state is deleted. A stored state
// is not merged with it.
func TestDefault(t *testing.T) {
	t.Parallel()
	store := &state.Memory{}
	initial := func() *structpb.ListValue {
		l, err := structpb.NewList([]any{"a", "b"})
		require.NoError(t, err)
		return l
	}
	s, err := state.Load(t.Context(), store, owner(1), initial())
	require.NoError(t, err)
	require.Len(t, s.Value().Values, 2)
	s.Value().Values = s.Value().Values[1:]
	require.NoError(t, s.Save(t.Context()))
	s, err = state.Load(t.Context(), store, owner(1), initial())
	require.NoError(t, err)
	require.Len(t, s.Value().Values, 1)
	s.Value().Values = nil
	require.NoError(t, s.Save(t.Context()))
	s, err = state.Load(t.Context(), store, owner(1), initial())
	require.NoError(t, err)
	require.Empty(t, s.Value().Values, "an empty state is one, too")
	require.NoError(t, s.Delete(t.Context()))
	require.True(t, proto.Equal(initial(), s.Value()))
}

// The owner with epoch 1 was paused while its shard moved, once before its first save and once after.
func TestPausedOwner(t *testing.T) {
	t.Parallel()
	for _, saves := range []int64{0, 3} {
		store := &state.Memory{}
		old := load(t, store, 1)
		for range saves {
			old.Value().Value++
			require.NoError(t, old.Save(t.Context()))
		}
		now := load(t, store, 2)
		old.Value().Value = 100
		err := old.Save(t.Context())
		require.ErrorIs(t, err, state.ErrFenced)
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Equal(t, saves, old.Value().Value, "as it was stored")
		old.Value().Value = 100
		err = old.Save(t.Context())
		require.ErrorIs(t, err, state.ErrStale)
		require.ErrorIs(t, old.Err(), state.ErrFenced, "it says why")
		require.Equal(t, saves, old.Value().Value)
		require.ErrorIs(t, old.Reload(t.Context()), state.ErrFenced)
		require.ErrorIs(t, old.Err(), state.ErrStale)
		now.Value().Value++
		require.NoError(t, now.Save(t.Context()))
		require.Equal(t, saves+1, loadReply(t, store, 2))
		_, err = state.Load(t.Context(), store, owner(1), &wrapperspb.Int64Value{})
		require.ErrorIs(t, err, state.ErrFenced)
	}
}

// The outcome of a save determines whether the State is stale.
func TestSaveErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		before, after error
		want          error
		code          codes.Code
		stale         bool
		reloaded      int64
	}{
		{"an error of which nothing is known, before", errOops, nil, state.ErrOutcomeUnknown, codes.Unknown, true, 1},
		{"an error of which nothing is known, after", nil, errOops, state.ErrOutcomeUnknown, codes.Unknown, true, 2},
		{"a context's", nil, context.DeadlineExceeded, context.DeadlineExceeded, codes.Unknown, true, 2},
		{"conflict", state.ErrConflict, nil, state.ErrConflict, codes.Aborted, true, 1},
		{"unavailable", state.ErrUnavailable, nil, state.ErrUnavailable, codes.Unavailable, false, 1},
		{"too large", state.ErrTooLarge, nil, state.ErrTooLarge, codes.ResourceExhausted, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &faulty{Store: &state.Memory{}}
			s := load(t, store, 1)
			s.Value().Value = 1
			require.NoError(t, s.Save(t.Context()))
			store.before, store.after = c.before, c.after
			s.Value().Value = 2
			err := s.Save(t.Context())
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.code, status.Code(err))
			require.EqualValues(t, 1, s.Value().Value, "as it was stored, as far as is known")
			if !c.stale {
				require.NoError(t, s.Err())
				s.Value().Value = 2
				require.NoError(t, s.Save(t.Context()))
				return
			}
			require.ErrorIs(t, s.Err(), state.ErrStale)
			require.ErrorIs(t, s.Err(), c.want)
			require.ErrorIs(t, s.Save(t.Context()), state.ErrStale)
			require.ErrorIs(t, s.Delete(t.Context()), state.ErrStale)
			_, err = state.Do(t.Context(), s, "1", increment(s))
			require.ErrorIs(t, err, state.ErrStale)
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.NoError(t, s.Reload(t.Context()))
			require.NoError(t, s.Err())
			require.Equal(t, c.reloaded, s.Value().Value)
			s.Value().Value = 3
			require.NoError(t, s.Save(t.Context()))
			require.EqualValues(t, 3, loadReply(t, store, 1))
		})
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := state.Load(gone, &state.Memory{}, owner(1), &wrapperspb.Int64Value{})
	require.ErrorIs(t, err, state.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, codes.Unavailable, status.Code(err))

	store := &state.Memory{}
	r, err := store.Load(t.Context(), state.Ref{Service: "test.Counters", Key: "it"}, 1)
	require.NoError(t, err)
	_, err = store.Save(t.Context(), state.Ref{Service: "test.Counters", Key: "it"},
		state.Write{Version: r.Version, Epoch: 1, Value: []byte("no message")})
	require.NoError(t, err)
	_, err = state.Load(t.Context(), store, owner(1), &wrapperspb.Int64Value{})
	require.ErrorIs(t, err, state.ErrUnreadable)
	require.Equal(t, codes.Internal, status.Code(err))

	// Text that is not UTF-8 cannot be stored. That is no reason to reload.
	s, err := state.Load(t.Context(), &state.Memory{}, owner(1), &wrapperspb.StringValue{})
	require.NoError(t, err)
	s.Value().Value = "\xff"
	require.ErrorIs(t, s.Save(t.Context()), state.ErrUnreadable)
	require.NoError(t, s.Err())
	require.Empty(t, s.Value().Value)
	_, err = state.Load(t.Context(), &state.Memory{}, owner(1), wrapperspb.String("\xff"))
	require.ErrorIs(t, err, state.ErrUnreadable)
}

// A record that cannot be read leaves the value as it was and makes the State stale.
func TestUnreadableWhenReloaded(t *testing.T) {
	t.Parallel()
	store := &state.Memory{}
	s := load(t, store, 1)
	s.Value().Value = 7
	require.NoError(t, s.Save(t.Context()))
	r, err := store.Load(t.Context(), s.Ref(), 1)
	require.NoError(t, err)
	_, err = store.Save(t.Context(), s.Ref(), state.Write{Version: r.Version, Epoch: 1, Value: []byte("no message")})
	require.NoError(t, err)
	require.ErrorIs(t, s.Reload(t.Context()), state.ErrUnreadable)
	require.ErrorIs(t, s.Err(), state.ErrStale)
	require.EqualValues(t, 7, s.Value().Value)
	s.Revert()
}
