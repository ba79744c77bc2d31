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
	records map[Ref]memoryRecord
	replies map[requestKey]memoryReply
	oldest  []requestKey // keys of replies by age; a key may have a younger reply by now
	now     func() time.Time
}

type memoryRecord struct {
	Record
	epoch int64
}

type requestKey struct {
	ref Ref
	id  string
}

type memoryReply struct {
	bytes []byte
	at    time.Time
}

// lockRecords locks the store unless ctx has ended.
func (m *Memory) lockRecords(ctx context.Context, ref Ref) (unlock func(), err error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if ctx.Err() != nil {
		m.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
	if m.records == nil {
		m.records, m.replies = map[Ref]memoryRecord{}, map[requestKey]memoryReply{}
	}
	if m.now == nil {
		m.now = time.Now
	}
	return m.mu.Unlock, nil
}

// Load implements [Store].
func (m *Memory) Load(ctx context.Context, ref Ref, epoch int64) (Record, error) {
	unlock, err := m.lockRecords(ctx, ref)
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
	unlock, err := m.lockRecords(ctx, ref)
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
	r := memoryRecord{Record{Version: m.last}, w.Epoch}
	if !w.Delete {
		r.Found, r.Value = true, slices.Clone(w.Value)
	}
	m.records[ref] = r
	m.expireReplies()
	if w.RequestID != "" {
		at := requestKey{ref, w.RequestID}
		m.replies[at] = memoryReply{slices.Clone(w.Reply), m.now()}
		m.oldest = append(m.oldest, at)
	}
	return m.last, nil
}

// Reply implements [Store].
func (m *Memory) Reply(ctx context.Context, ref Ref, requestID string) (b []byte, ok bool, err error) {
	unlock, err := m.lockRecords(ctx, ref)
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	r, ok := m.replies[requestKey{ref, requestID}]
	if !ok || m.replyExpired(r) {
		return nil, false, nil
	}
	return slices.Clone(r.bytes), true, nil
}

func (m *Memory) replyExpired(r memoryReply) bool {
	return m.now().Sub(r.at) >= cmp.Or(m.Retention, DefaultRetention)
}

// expireReplies removes expired replies. The lock must be held.
func (m *Memory) expireReplies() {
	for len(m.oldest) > 0 {
		r, ok := m.replies[m.oldest[0]]
		if ok && !m.replyExpired(r) {
			return
		}
		delete(m.replies, m.oldest[0])
		m.oldest = m.oldest[1:]
	}
}
