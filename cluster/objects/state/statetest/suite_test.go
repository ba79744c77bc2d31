package statetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/objects/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryConforms(t *testing.T) {
	Run(t, func(*testing.T) state.Store { return &state.Memory{} })
}

// mutant is a store with one fault.
type mutant struct {
	*state.Memory // or rows
	rows          *table
	unchecked     bool // leaves names and contexts to the functions
	load          func(m *mutant, ctx context.Context, ref state.Ref, epoch int64) (state.Record, error)
	save          func(m *mutant, ctx context.Context, ref state.Ref, w state.Write) (int64, error)
	reply         func(m *mutant, ctx context.Context, ref state.Ref, id string) ([]byte, bool, error)
}

// check makes the checks that a mutant does correctly.
func (m *mutant) check(ctx context.Context, ref state.Ref, w state.Write) error {
	if m.unchecked {
		return nil
	}
	return errors.Join(context.Cause(ctx), ref.Validate(), w.Validate())
}

func (m *mutant) Load(ctx context.Context, ref state.Ref, epoch int64) (state.Record, error) {
	if err := m.check(ctx, ref, state.Write{}); err != nil {
		return state.Record{}, err
	}
	if m.load != nil {
		return m.load(m, ctx, ref, epoch)
	}
	return m.Memory.Load(ctx, ref, epoch)
}

func (m *mutant) Save(ctx context.Context, ref state.Ref, w state.Write) (int64, error) {
	if err := m.check(ctx, ref, w); err != nil {
		return 0, err
	}
	if m.save != nil {
		return m.save(m, ctx, ref, w)
	}
	return m.Memory.Save(ctx, ref, w)
}

func (m *mutant) Reply(ctx context.Context, ref state.Ref, id string) ([]byte, bool, error) {
	if err := m.check(ctx, ref, state.Write{}); err != nil {
		return nil, false, err
	}
	if m.reply != nil {
		return m.reply(m, ctx, ref, id)
	}
	return m.Memory.Reply(ctx, ref, id)
}

func failing(t *testing.T, open func() state.Store) []string {
	t.Helper()
	var names []string
	for _, c := range checks {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := c.check(ctx, open()); err != nil {
			t.Logf("%s: %v", c.name, err)
			names = append(names, c.name)
		}
		cancel()
	}
	return names
}

// A suite that finds no mutants proves nothing.
func TestTheSuiteFindsMutants(t *testing.T) {
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := failing(t, func() state.Store { return m.open() })
			if m.finds == nil {
				require.Empty(t, found)
			}
			require.Subset(t, found, m.finds)
		})
	}
}
