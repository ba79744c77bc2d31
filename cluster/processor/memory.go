package processor

import (
	"context"
	"sync"
)

// Memory is a checkpoint in the memory of this process, for tests. The zero value works. It implements [Manager].
type Memory struct {
	mu     sync.Mutex
	byName map[string]*memoryEntry
}

type memoryEntry struct {
	mark   Mark
	pause  PauseRequest
	report *Report
	parked []Parked // oldest first
}

// current returns the mark with the requests.
func (r *memoryEntry) current() Mark {
	m := r.mark
	m.Paused, m.Request = r.pause.Paused, r.pause.Number
	for _, p := range r.parked {
		if p.Retry {
			m.Retry = p.Position
			break
		}
	}
	return m
}

// find returns the record of a parked event, nil if there is none.
func (r *memoryEntry) find(at Position) *Parked {
	for i := range r.parked {
		if r.parked[i].Position == at {
			return &r.parked[i]
		}
	}
	return nil
}

// entry returns the processor's entry. The lock must be held.
func (m *Memory) entry(name string) *memoryEntry {
	if m.byName == nil {
		m.byName = map[string]*memoryEntry{}
	}
	r := m.byName[name]
	if r == nil {
		r = &memoryEntry{}
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
	r.mark.Claim++
	return r.current(), nil
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
	case r.mark.Version != at.Version:
		return at, movedError(name, at, failed)
	}
	if progress.isEmpty(at) {
		return r.current(), failed
	}
	r.mark.Position, r.mark.Replay = progress.Position, progress.Replay
	r.mark.Version++
	for _, p := range progress.Parked {
		r.forget(p.Position)
		r.parked = append(r.parked, p)
	}
	for _, handled := range progress.Handled {
		r.forget(handled)
	}
	if p := progress.Failed; p != nil {
		if record := r.find(p.Position); record != nil {
			*record = *p
			record.Retry = false
		}
	}
	return r.current(), failed
}

// Report implements [Checkpoint].
func (m *Memory) Report(_ context.Context, name string, report Report) (Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(name)
	switch {
	case r.mark.Token > report.Token:
		return Mark{}, fencedError(name, report.Token, r.mark.Token)
	case r.mark.Token < report.Token:
		return Mark{}, movedError(name, r.mark, nil)
	}
	r.report = &report
	return r.current(), nil
}
