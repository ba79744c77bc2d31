package processor

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// List implements [Manager].
func (m *Memory) List(_ context.Context, q Query) (found []Standing, more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		switch {
		case name <= q.After || m.byName[name].mark.Version == 0:
		case len(found) == q.Number():
			return found, true, nil
		default:
			found = append(found, m.byName[name].standing(name))
		}
	}
	return found, false, nil
}

// Look implements [Manager].
func (m *Memory) Look(_ context.Context, name string) (Standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.byName[name]
	if r == nil || r.mark.Version == 0 && r.pause.Number == 0 {
		return Standing{}, unknownError(name)
	}
	return r.standing(name), nil
}

func (r *memoryEntry) standing(name string) Standing {
	s := Standing{Name: name, Position: r.mark.Position, Token: r.mark.Token, Claim: r.mark.Claim, Replay: r.mark.Replay,
		Pause: r.pause, Parked: int64(len(r.parked))}
	if r.report != nil {
		report := *r.report
		s.Report = &report
	}
	return s
}

// RequestPause implements [Manager].
func (m *Memory) RequestPause(_ context.Context, name string, request PauseRequest) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(name)
	last := r.pause.Number
	r.pause = request.Normalize()
	r.pause.Number = last + 1
	return nil
}

// Rewind implements [Manager].
func (m *Memory) Rewind(_ context.Context, name string, to Position) error {
	if err := to.Validate(); err != nil {
		return fmt.Errorf("rewind processor %q: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(name)
	r.mark.Position, r.mark.Replay = to, r.mark.replayFrom(to)
	r.mark.Version++
	return nil
}

// Unfence implements [Manager].
func (m *Memory) Unfence(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(name)
	r.mark.Token = 0
	r.mark.Version++
	return nil
}

// Parked implements [Manager].
func (m *Memory) Parked(_ context.Context, name string) ([]Parked, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	parked := m.entry(name).parked
	return slices.Clone(parked[:min(len(parked), MaxParked)]), nil
}

// ParkedEvent implements [Checkpoint].
func (m *Memory) ParkedEvent(_ context.Context, name string, at Position) (Parked, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.entry(name).find(at); p != nil {
		return *p, nil
	}
	return Parked{}, notParkedError(name, at)
}

// RequestRetry implements [Manager].
func (m *Memory) RequestRetry(_ context.Context, name string, at Position) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.entry(name).find(at)
	if p == nil {
		return notParkedError(name, at)
	}
	p.Retry = true
	return nil
}

// Forget implements [Manager].
func (m *Memory) Forget(_ context.Context, name string, at Position) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(name).forget(at)
	return nil
}

func (r *memoryEntry) forget(at Position) {
	r.parked = slices.DeleteFunc(r.parked, func(p Parked) bool { return p.Position == at })
}
