package elector

import (
	"context"
	"strconv"
	"sync"
)

// Memory is a lease store in the memory of this process, for tests and for programs that run alone. It is a
// [LeaseWatcher].
type Memory struct {
	mu      sync.Mutex
	lease   Lease // without a Version if there is no record
	writes  int64
	changed chan struct{} // closed at the next write
}

// NewMemory returns a store without a record.
func NewMemory() *Memory { return &Memory{changed: make(chan struct{})} }

// GetLease implements [LeaseStore].
func (m *Memory) GetLease(ctx context.Context) (Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return Lease{}, context.Cause(ctx)
	case m.lease.Version == "":
		return Lease{}, ErrNotFound
	}
	return m.lease, nil
}

// CreateLease implements [LeaseStore].
func (m *Memory) CreateLease(ctx context.Context, lease Lease) (Lease, error) {
	return m.replaceLease(ctx, "", lease, ErrExists)
}

// UpdateLease implements [LeaseStore].
func (m *Memory) UpdateLease(ctx context.Context, lease Lease) (Lease, error) {
	if lease.Version == "" {
		return Lease{}, ErrConflict
	}
	return m.replaceLease(ctx, lease.Version, lease, ErrConflict)
}

// replaceLease replaces the lease of that version; if there is none, it returns other.
func (m *Memory) replaceLease(ctx context.Context, version string, lease Lease, other error) (Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return Lease{}, context.Cause(ctx)
	case m.lease.Version != version:
		return Lease{}, other
	}
	m.writes++
	lease.Version = strconv.FormatInt(m.writes, 10)
	m.lease = lease
	close(m.changed)
	m.changed = make(chan struct{})
	return lease, nil
}

// Watch implements [LeaseWatcher].
func (m *Memory) Watch(ctx context.Context, changed func()) error {
	for {
		m.mu.Lock()
		next := m.changed
		m.mu.Unlock()
		changed()
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
