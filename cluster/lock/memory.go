package lock

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// Memory is a registry within this process. The zero value works.
type Memory struct {
	mu     sync.Mutex
	last   int64
	queues map[string]*memoryQueue
}

type memoryQueue struct {
	queue   order.Queue
	waiting map[string]chan struct{} // closed when the entry holds the lock
}

// Acquire implements [LockRegistry].
func (m *Memory) Acquire(ctx context.Context, name string, opts ...Option) (Held, error) {
	if err := state.CheckName("lock", name); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	h, holds := m.enterQueue(name, opts)
	select {
	case <-holds:
		return h, nil
	case <-ctx.Done():
		m.leaveQueue(h)
		return nil, context.Cause(ctx)
	}
}

// TryAcquire implements [LockRegistry].
func (m *Memory) TryAcquire(ctx context.Context, name string, opts ...Option) (Held, bool, error) {
	if err := state.CheckName("lock", name); err != nil {
		return nil, false, err
	}
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	h, holds := m.enterQueue(name, opts)
	select {
	case <-holds:
		return h, true, nil
	default:
		m.leaveQueue(h)
		return nil, false, nil
	}
}

// enterQueue queues an entry, and returns a channel that closes when the entry holds the lock.
func (m *Memory) enterQueue(name string, opts []Option) (*memoryHeld, <-chan struct{}) {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	h := &memoryHeld{m: m, name: name, token: m.last, key: strconv.FormatInt(m.last, 10)}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	q := m.queues[name]
	if q == nil {
		if m.queues == nil {
			m.queues = map[string]*memoryQueue{}
		}
		q = &memoryQueue{waiting: map[string]chan struct{}{}}
		m.queues[name] = q
	}
	holds := make(chan struct{})
	q.waiting[h.key] = holds
	q.queue = q.queue.Put(m.last, order.Entry{Key: h.key, CreateRevision: m.last, Shared: o.Shared}).AdvanceTo(m.last)
	q.grantFirst()
	return h, holds
}

func (m *Memory) leaveQueue(h *memoryHeld) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[h.name]
	if q == nil || !q.queue.HasEntry(h.key, h.token) {
		return
	}
	m.last++
	delete(q.waiting, h.key)
	q.queue = q.queue.Delete(m.last, h.key).AdvanceTo(m.last)
	if len(q.queue.Entries()) == 0 {
		delete(m.queues, h.name)
		return
	}
	q.grantFirst()
}

func (q *memoryQueue) grantFirst() {
	for _, e := range q.queue.Entries() {
		if holds, waits := q.waiting[e.Key]; waits && q.queue.HoldsLock(e.Key) {
			close(holds)
			delete(q.waiting, e.Key)
		}
	}
}

type memoryHeld struct {
	m      *Memory
	name   string
	token  int64
	key    string
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (h *memoryHeld) Name() string             { return h.name }
func (h *memoryHeld) Token() int64             { return h.token }
func (h *memoryHeld) Context() context.Context { return h.ctx }
func (h *memoryHeld) Valid() bool              { return h.ctx.Err() == nil }
func (h *memoryHeld) Guard() []clientv3.Cmp    { return nil }

func (h *memoryHeld) Txn(context.Context) clientv3.Txn {
	return txn.Failed(fmt.Errorf("lock %q is kept in memory: etcd cannot guard a transaction with it", h.name))
}

func (h *memoryHeld) Release(context.Context) error {
	h.cancel(ErrReleased)
	h.m.leaveQueue(h)
	return nil
}
