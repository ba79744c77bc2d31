package leasequeue

import (
	"context"
	"fmt"
	"math"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
)

// Query selects the queues that [List] returns.
type Query struct {
	// After skips all queues up to and including that name, in the order of List.
	After string
	// Limit limits the number of queues; 0 means all.
	Limit int
	// Entries limits the entries read of each queue; 0 means all.
	Entries int
}

// QueueState is one queue at one revision.
type QueueState struct {
	Name string
	// Entries holds the first entries in order: all, or as many as the query allows.
	Entries []order.Entry
	// Length counts all entries of the queue.
	Length int
}

const (
	// maxKeysPerRead limits the keys, without values, that one request reads to find names.
	maxKeysPerRead = 1000
	// maxQueuesPerTxn limits the queues that one transaction reads. etcd allows 128.
	maxQueuesPerTxn = 50
)

// List returns the queues that have entries, in the order of their keys in etcd. It changes nothing. more
// reports whether others follow the last one. Each queue is read at one revision, but not all at the same:
// changes made meanwhile may be missed. It costs one request for a thousand keys and one for fifty queues.
// Errors are etcd's, and a lifecycle.UnfinishedError with the queues found so far if ctx's deadline passes
// first.
func List(ctx context.Context, client *clientv3.Client, queues state.Queues, q Query) (found []QueueState, more bool,
	err error) {
	ctx = clientv3.WithRequireLeader(ctx)
	if q.Limit == 0 {
		q.Limit = math.MaxInt - 1
	}
	from, end := queues.Root(), clientv3.GetPrefixRangeEnd(queues.Root())
	if q.After != "" {
		from = clientv3.GetPrefixRangeEnd(queues.QueuePrefix(q.After))
	}
	after := "" // the last name that was read
	for {
		names, next, err := readNames(ctx, client, queues, from, end)
		if err != nil {
			return lifecycle.Unfinished(ctx, found, after, err)
		}
		for len(names) > 0 && len(found) <= q.Limit {
			some := names[:min(len(names), maxQueuesPerTxn, q.Limit+1-len(found))]
			names = names[len(some):]
			read, err := readQueueStates(ctx, client, queues, some, q.Entries)
			if err != nil {
				return lifecycle.Unfinished(ctx, found, after, err)
			}
			found, after = append(found, read...), some[len(some)-1]
		}
		switch {
		case len(found) > q.Limit:
			return found[:q.Limit], true, nil
		case next == "":
			return found, false, nil
		}
		from = next
	}
}

// readNames reads one page of keys. It returns the names of the queues in it and the key at which the next page
// begins, or "" if there is none. The rest of a queue that does not end within the page is skipped, as is any
// other key's.
func readNames(ctx context.Context, client *clientv3.Client, queues state.Queues, from, end string) (found []string,
	next string, err error) {
	resp, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(),
		clientv3.WithLimit(maxKeysPerRead))
	if err != nil {
		return nil, "", fmt.Errorf("read the names of the queues: %w", err)
	}
	for _, kv := range resp.Kvs {
		name, ok := queues.NameOf(string(kv.Key))
		if ok && (len(found) == 0 || found[len(found)-1] != name) {
			found = append(found, name)
		}
	}
	if !resp.More || len(resp.Kvs) == 0 {
		return found, "", nil
	}
	last := string(resp.Kvs[len(resp.Kvs)-1].Key)
	return found, clientv3.GetPrefixRangeEnd(last[:strings.LastIndexByte(last, '/')+1]), nil
}

// readQueueStates reads queues at one revision. It leaves out empty ones.
func readQueueStates(ctx context.Context, client *clientv3.Client, queues state.Queues, names []string, limit int) (
	found []QueueState, err error) {
	var reads []clientv3.Op
	for _, name := range names {
		reads = append(reads, clientv3.OpGet(queues.QueuePrefix(name), clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(int64(limit))))
	}
	resp, err := client.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return nil, fmt.Errorf("read the queues: %w", err)
	}
	for i, name := range names {
		got := resp.Responses[i].GetResponseRange()
		if len(got.Kvs) == 0 {
			continue
		}
		f := QueueState{Name: name, Length: int(got.Count)}
		for _, kv := range got.Kvs {
			f.Entries = append(f.Entries, parseEntry(kv))
		}
		found = append(found, f)
	}
	return found, nil
}

// ReadQueue reads one queue, as List does. An empty queue has no entries.
func ReadQueue(ctx context.Context, client *clientv3.Client, queues state.Queues, name string, limit int) (QueueState,
	error) {
	found, err := readQueueStates(clientv3.WithRequireLeader(ctx), client, queues, []string{name}, limit)
	if err != nil || len(found) == 0 {
		return QueueState{Name: name}, err
	}
	return found[0], nil
}
