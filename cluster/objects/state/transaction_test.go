package state_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/objects/state"
)

// The outcome of the transaction determines the State. The memory store writes at once; a database would not.
func TestTransaction(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[state.Outcome]int64{state.Committed: 3, state.RolledBack: 1, state.Unknown: 1} {
		s := load(t, &state.Memory{}, 1)
		s.Value().Value = 1
		require.NoError(t, s.Save(t.Context()))
		ctx, end := state.InTransaction(t.Context())
		for value := range int64(2) {
			s.Value().Value = 2 + value
			require.NoError(t, s.Save(ctx))
		}
		require.ErrorIs(t, s.Save(t.Context()), state.ErrStale, "it has not ended")
		other, _ := state.InTransaction(t.Context())
		require.ErrorIs(t, s.Save(other), state.ErrStale)
		require.ErrorIs(t, s.Reload(ctx), state.ErrStale)
		end(outcome)
		require.Equal(t, want, s.Value().Value)
		if outcome == state.Unknown {
			require.ErrorIs(t, s.Err(), state.ErrStale)
			require.ErrorIs(t, s.Err(), state.ErrOutcomeUnknown)
			require.NoError(t, s.Reload(t.Context()))
			require.EqualValues(t, 3, s.Value().Value)
		}
		require.NoError(t, s.Err())
		end(state.Unknown)
		require.NoError(t, s.Err(), "once")
	}
}

// A State that has joined is reset even if nothing was saved. One that was reloaded is not reset.
func TestJoin(t *testing.T) {
	t.Parallel()
	s := load(t, &state.Memory{}, 1)
	require.Error(t, s.Join(t.Context()))
	ctx, end := state.InTransaction(t.Context())
	require.NoError(t, s.Join(ctx))
	s.Value().Value = 7
	end(state.RolledBack)
	require.Zero(t, s.Value().Value)
	require.NoError(t, s.Err())

	ctx, end = state.InTransaction(t.Context())
	require.NoError(t, s.Join(ctx))
	s.Value().Value = 7
	require.NoError(t, s.Save(ctx))
	require.NoError(t, s.Reload(t.Context()))
	end(state.RolledBack)
	require.EqualValues(t, 7, s.Value().Value)
	require.NoError(t, s.Save(t.Context()))
}
