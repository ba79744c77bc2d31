package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// DefaultRetention is the time for which stores keep replies unless their configuration sets another.
const DefaultRetention = 24 * time.Hour

// Memory is a [Store] in the memory of this process, for tests and toys. The zero value works. It never removes
// the record of an object without a state.
type Memory struct {
	// Retention is the time for which replies are kept; the default is DefaultRetention. Do not change it after
	// the first use.
	Retention time.Duration

	mu      sync.Mutex
	last    int64 // the last version
	records map[Ref]remembered
	replies map[request]reply
	oldest  []request // keys of replies by age; a key may have a younger reply by now
	now     func() time.Time
}

type remembered struct {
	Record
	epoch int64
}

type request struct {
	ref Ref
	id  string
}

type reply struct {
	bytes []byte
	at    time.Time
}

// begin locks the store unless ctx has ended.
func (m *Memory) begin(ctx context.Context, ref Ref) (unlock func(), err error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if ctx.Err() != nil {
		m.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
	if m.records == nil {
		m.records, m.replies = map[Ref]remembered{}, map[request]reply{}
	}
	if m.now == nil {
		m.now = time.Now
	}
	return m.mu.Unlock, nil
}

// Load implements [Store].
func (m *Memory) Load(ctx context.Context, ref Ref, epoch int64) (Record, error) {
	unlock, err := m.begin(ctx, ref)
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	r := m.records[ref]
	if r.epoch > epoch {
		return Record{}, ErrFenced
	}
	m.last++
	r.epoch, r.Version = epoch, m.last
	m.records[ref] = r
	r.Value = slices.Clone(r.Value)
	return r.Record, nil
}

// Save implements [Store].
func (m *Memory) Save(ctx context.Context, ref Ref, w Write) (int64, error) {
	if err := w.Validate(); err != nil {
		return 0, err
	}
	unlock, err := m.begin(ctx, ref)
	if err != nil {
		return 0, err
	}
	defer unlock()
	switch r, ok := m.records[ref]; {
	case ok && r.epoch > w.Epoch:
		return 0, ErrFenced
	case !ok || r.Version != w.Version:
		return 0, ErrConflict
	}
	m.last++
	r := remembered{Record{Version: m.last}, w.Epoch}
	if !w.Delete {
		r.Found, r.Value = true, slices.Clone(w.Value)
	}
	m.records[ref] = r
	m.expire()
	if w.RequestID != "" {
		at := request{ref, w.RequestID}
		m.replies[at] = reply{slices.Clone(w.Reply), m.now()}
		m.oldest = append(m.oldest, at)
	}
	return m.last, nil
}

// Reply implements [Store].
func (m *Memory) Reply(ctx context.Context, ref Ref, requestID string) (b []byte, ok bool, err error) {
	unlock, err := m.begin(ctx, ref)
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	r, ok := m.replies[request{ref, requestID}]
	if !ok || m.expired(r) {
		return nil, false, nil
	}
	return slices.Clone(r.bytes), true, nil
}

func (m *Memory) expired(r reply) bool {
	return m.now().Sub(r.at) >= cmp.Or(m.Retention, DefaultRetention)
}

// expire removes expired replies. The lock must be held.
func (m *Memory) expire() {
	for len(m.oldest) > 0 {
		r, ok := m.replies[m.oldest[0]]
		if ok && !m.expired(r) {
			return
		}
		delete(m.replies, m.oldest[0])
		m.oldest = m.oldest[1:]
	}
}
