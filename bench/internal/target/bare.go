package target

import (
	"context"
	"errors"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const bareName = "bare transactions"

// bareQueues returns the minimum of a lock in etcd: a transaction to queue, a deletion to leave, and a standing
// watch per client that reports the deletions a waiter waits for. It has no session and survives no fault, and
// each wanter has a key of its own. It is a floor, not a peer.
func bareQueues(ctx context.Context, clients []*clientv3.Client) (library, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var sides []*bareSide
	closeAll := func() {
		cancel()
		wg.Wait()
	}
	for _, c := range clients {
		s := &bareSide{client: c, gone: map[string]int64{}, waiting: map[string]chan struct{}{}}
		events := c.Watch(clientv3.WithRequireLeader(ctx), barePrefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		if first, ok := <-events; !ok || first.Err() != nil {
			closeAll()
			return library{}, errors.Join(fmt.Errorf("%s: open a watch", bareName), first.Err())
		}
		wg.Go(func() { s.follow(events) })
		sides = append(sides, s)
	}
	return library{name: bareName, close: closeAll, wanter: func(ctx context.Context, name string, i int) (mutual, error) {
		s, prefix := sides[i%len(sides)], barePrefix+name+"/"
		key := fmt.Sprint(prefix, i)
		return mutual{
			lock: func() error { return s.lock(ctx, prefix, key) },
			unlock: func() error {
				_, err := s.client.Delete(ctx, key)
				return err
			},
		}, nil
	}}, nil
}

const barePrefix = "/bare/"

// bareSide is one client's part of bareQueues.
type bareSide struct {
	client *clientv3.Client

	mu      sync.Mutex
	gone    map[string]int64         // the revision of each key's last deletion
	waiting map[string]chan struct{} // by the key waited for
}

func (s *bareSide) follow(events clientv3.WatchChan) {
	for resp := range events {
		s.mu.Lock()
		for _, ev := range resp.Events {
			if ev.Type != clientv3.EventTypeDelete {
				continue
			}
			key := string(ev.Kv.Key)
			s.gone[key] = ev.Kv.ModRevision
			if c := s.waiting[key]; c != nil {
				close(c)
				delete(s.waiting, key)
			}
		}
		s.mu.Unlock()
	}
}

// lock queues a key and waits until the key before it is deleted.
func (s *bareSide) lock(ctx context.Context, prefix, key string) error {
	resp, err := s.client.Txn(ctx).Then(clientv3.OpPut(key, ""),
		clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend),
			clientv3.WithLimit(2), clientv3.WithKeysOnly())).Commit()
	if err != nil {
		return err
	}
	kvs := resp.Responses[1].GetResponseRange().Kvs
	if len(kvs) < 2 {
		return nil
	}
	before := string(kvs[1].Key)
	s.mu.Lock()
	if s.gone[before] > kvs[1].CreateRevision {
		s.mu.Unlock()
		return nil
	}
	c := make(chan struct{})
	s.waiting[before] = c
	s.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
