package electortest

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/elector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// faulty is a store with one fault.
type faulty struct {
	*elector.Memory
	readThenWrite  bool // compares in one step and writes in another
	blind          bool // does not compare
	overwrites     bool // replaces an existing record
	precision      time.Duration
	ignoresContext bool // continues after the context has ended
	content        bool // derives versions from the content of the record
	forgetful      bool // loses the number

	mu sync.Mutex
}

func (f *faulty) kept(l elector.Lease) elector.Lease {
	if f.precision > 0 {
		l.LeaseDuration = l.LeaseDuration.Truncate(f.precision)
	}
	if f.forgetful {
		l.LeaderTransitions = int64(int32(l.LeaderTransitions))
	}
	return l
}

func (f *faulty) ctx(ctx context.Context) context.Context {
	if f.ignoresContext {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (f *faulty) GetLease(ctx context.Context) (elector.Lease, error) {
	l, err := f.Memory.GetLease(f.ctx(ctx))
	if f.content {
		l.Version = l.HolderIdentity + strconv.FormatInt(l.LeaderTransitions, 10)
	}
	return l, err
}

func (f *faulty) CreateLease(ctx context.Context, l elector.Lease) (elector.Lease, error) {
	_, err := f.Memory.CreateLease(f.ctx(ctx), f.kept(l))
	if err != nil && f.overwrites {
		return f.force(ctx, l)
	}
	if err != nil {
		return elector.Lease{}, err
	}
	return f.GetLease(ctx)
}

func (f *faulty) UpdateLease(ctx context.Context, l elector.Lease) (elector.Lease, error) {
	switch {
	case f.blind:
		return f.force(ctx, l)
	case f.readThenWrite, f.content:
		now, err := f.GetLease(ctx)
		if err != nil || now.Version != l.Version {
			return elector.Lease{}, elector.ErrConflict
		}
		if f.readThenWrite {
			<-time.After(time.Millisecond) // the others read in the meantime, as over a network
		}
		return f.force(ctx, l)
	}
	return f.Memory.UpdateLease(f.ctx(ctx), f.kept(l))
}

// force writes without comparing.
func (f *faulty) force(ctx context.Context, l elector.Lease) (elector.Lease, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := f.Memory.GetLease(f.ctx(ctx))
	if err != nil {
		return elector.Lease{}, err
	}
	l.Version = now.Version
	if _, err := f.Memory.UpdateLease(f.ctx(ctx), f.kept(l)); err != nil {
		return elector.Lease{}, err
	}
	return f.GetLease(ctx)
}

func failing(t *testing.T, open func() elector.LeaseStore) []string {
	t.Helper()
	var names []string
	for _, c := range checks {
		if err := c.check(t.Context(), open()); err != nil {
			t.Logf("%s: %v", c.name, err)
			names = append(names, c.name)
		}
	}
	return names
}

// A suite that finds no mutants proves nothing.
func TestTheSuiteFindsMutants(t *testing.T) {
	for name, f := range map[string]struct {
		plant func(*faulty)
		finds []string
	}{
		"reads, then writes": {func(f *faulty) { f.readThenWrite = true }, []string{"one of many wins a vacancy",
			"every increment counts"}},
		"does not compare": {func(f *faulty) { f.blind = true }, []string{"a version is replaced once",
			"one of many wins a vacancy"}},
		"creates what is there": {func(f *faulty) { f.overwrites = true }, []string{"a record is created once",
			"one of many creates the record"}},
		"keeps seconds": {func(f *faulty) { f.precision = time.Second }, []string{"what is written is read"}},
		"does not hear": {func(f *faulty) { f.ignoresContext = true }, []string{"a context that ended is honoured"}},
		"takes content for a version": {func(f *faulty) { f.content = true }, []string{"a version is replaced once",
			"no version comes again"}},
		"keeps 32 bits of the number":   {func(f *faulty) { f.forgetful = true }, []string{"what is written is read"}},
		"nothing (the memory is sound)": {func(*faulty) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := failing(t, func() elector.LeaseStore {
				store := &faulty{Memory: elector.NewMemory()}
				f.plant(store)
				return store
			})
			for _, check := range f.finds {
				require.True(t, slices.Contains(found, check), "%q does not find it", check)
			}
			if f.finds == nil {
				require.Empty(t, found)
			}
		})
	}
}

// blindWatch signals the begin of a watch and nothing else.
type blindWatch struct{ *elector.Memory }

func (blindWatch) Watch(ctx context.Context, changed func()) error {
	changed()
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestTheSuiteFindsAWatchThatIsBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, []string{"a watch reports"}, failing(t,
			func() elector.LeaseStore { return blindWatch{elector.NewMemory()} }))
	})
}

// unwatched is a store that cannot be watched as it is configured.
type unwatched struct{ *elector.Memory }

func (unwatched) Watch(context.Context, func()) error { return nil }

// A store that cannot watch skips that check; it does not pass it.
func TestAStoreThatCannotWatch(t *testing.T) {
	store := struct{ elector.LeaseStore }{elector.NewMemory()}
	require.ErrorIs(t, checkWatch(t.Context(), store), errNoWatch)
	require.ErrorIs(t, checkWatch(t.Context(), unwatched{elector.NewMemory()}), errNoWatch)
	require.True(t, t.Run("the suite", func(t *testing.T) {
		Run(t, func(*testing.T) elector.LeaseStore { return struct{ elector.LeaseStore }{elector.NewMemory()} })
	}))
}
