package processor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Memory is a checkpoint in the memory of this process, for tests. The zero value works.
type Memory struct {
	mu     sync.Mutex
	byName map[string]*memoryEntry
}

type memoryEntry struct {
	mark   Mark
	parked map[Position]parkedEntry
}

type parkedEntry struct {
	Parked
	version int64
}

// entry returns the processor's entry. The lock must be held.
func (m *Memory) entry(name string) *memoryEntry {
	if m.byName == nil {
		m.byName = map[string]*memoryEntry{}
	}
	r := m.byName[name]
	if r == nil {
		r = &memoryEntry{parked: map[Position]parkedEntry{}}
		m.byName[name] = r
	}
	return r
}

// Claim implements [Checkpoint].
func (m *Memory) Claim(_ context.Context, name string, token int64) (Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(name)
	if token == 0 {
		token = r.mark.Token + 1
	}
	if token < r.mark.Token {
		return Mark{}, fencedError(name, token, r.mark.Token)
	}
	r.mark.Token = token
	r.mark.Version++
	return r.mark, nil
}

// Advance implements [Checkpoint]. It cannot undo work's effects.
func (m *Memory) Advance(ctx context.Context, name string, at Mark,
	work func(ctx context.Context) (Progress, error)) (Mark, error) {
	progress, failed := work(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(name)
	switch {
	case r.mark.Token > at.Token:
		return at, fencedError(name, at.Token, r.mark.Token)
	case r.mark != at:
		return at, movedError(name, at, failed)
	}
	r.mark.Position = progress.Position
	r.mark.Version++
	for _, p := range progress.Parked {
		r.parked[p.Position] = parkedEntry{p, r.mark.Version}
	}
	return r.mark, failed
}

// Parked returns the processor's parked events, oldest first.
func (m *Memory) Parked(_ context.Context, name string) ([]Parked, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sorted := slices.SortedFunc(maps.Values(m.entry(name).parked), func(a, b parkedEntry) int {
		return cmp.Compare(a.version, b.version)
	})
	parked := make([]Parked, len(sorted))
	for i, p := range sorted {
		parked[i] = p.Parked
	}
	return parked, nil
}

// Forget removes the record of a parked event. It returns no error if there is none.
func (m *Memory) Forget(_ context.Context, name string, at Position) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entry(name).parked, at)
	return nil
}

// Rewind makes the processor continue after the given position; "" is the beginning. Smaller tokens stay
// fenced. A running processor notices with its next event, or after Config.CheckInterval.
func (m *Memory) Rewind(_ context.Context, name string, to Position) error {
	if err := to.Validate(); err != nil {
		return fmt.Errorf("rewind processor %q: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(name)
	r.mark.Position = to
	r.mark.Version++
	return nil
}

// Unfence lets any token claim the checkpoint at its current position. It is for tokens that have started
// again. First make sure that no process with an old token is still running.
func (m *Memory) Unfence(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(name)
	r.mark.Token = 0
	r.mark.Version++
	return nil
}

func fencedError(name string, token, by int64) error {
	return fmt.Errorf("processor %q, token %d, stored %d: %w", name, token, by, ErrFenced)
}

func movedError(name string, at Mark, failed error) error {
	if failed != nil {
		return fmt.Errorf("processor %q: %w, and before that: %w", name, ErrMoved, failed)
	}
	return fmt.Errorf("processor %q, from %q: %w", name, at.Position, ErrMoved)
}
