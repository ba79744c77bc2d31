package leasequeue

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
)

// Query says which queues List is to find.
type Query struct {
	// After leaves out the queues up to that name, in List's order.
	After string
	// Limit is how many to find at most, from 1 up.
	Limit int
	// Entries is how many entries of each to read at most; 0: all.
	Entries int
}

// Found is one queue as it stood at one revision.
type Found struct {
	Name string
	// Entries are the first in it, the first first: all, or as many as the query asked for.
	Entries []order.Entry
	// Length is how many stand in it.
	Length int
}

const (
	// keysAtOnce is how many keys a request reads to find names, without their values.
	keysAtOnce = 1000
	// queuesAtOnce is how many queues a transaction reads; etcd takes 128.
	queuesAtOnce = 50
)

// List reads which queues somebody stands in, in the order of their keys in etcd, and changes nothing; more
// says that there are others behind the last. Each is read at one revision, and not all at the same: what
// changes meanwhile may be missed. It costs a request for a thousand keys, and one for fifty queues. Errors
// are etcd's, and a lifecycle.UnfinishedError with what was found until ctx's deadline.
func List(ctx context.Context, client *clientv3.Client, queues state.Queues, q Query) (found []Found, more bool,
	err error) {
	ctx = clientv3.WithRequireLeader(ctx)
	from, end := queues.Root(), clientv3.GetPrefixRangeEnd(queues.Root())
	if q.After != "" {
		from = clientv3.GetPrefixRangeEnd(queues.Queue(q.After))
	}
	after := "" // up to which name everything was read
	for {
		names, next, err := names(ctx, client, queues, from, end)
		if err != nil {
			return lifecycle.Unfinished(ctx, found, after, err)
		}
		for len(names) > 0 && len(found) <= q.Limit {
			some := names[:min(len(names), queuesAtOnce, q.Limit+1-len(found))]
			names = names[len(some):]
			read, err := readAll(ctx, client, queues, some, q.Entries)
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

// names reads one page of keys: the names of the queues in it, and where the next one begins, "" if there is
// none. The rest of a queue, or of what is none, that does not end within the page is passed over.
func names(ctx context.Context, client *clientv3.Client, queues state.Queues, from, end string) (found []string,
	next string, err error) {
	resp, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(),
		clientv3.WithLimit(keysAtOnce))
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

// readAll reads queues at one revision. Those in which nobody stands any more are left out.
func readAll(ctx context.Context, client *clientv3.Client, queues state.Queues, names []string, limit int) (
	found []Found, err error) {
	var reads []clientv3.Op
	for _, name := range names {
		reads = append(reads, clientv3.OpGet(queues.Queue(name), clientv3.WithPrefix(),
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
		f := Found{Name: name, Length: int(got.Count)}
		for _, kv := range got.Kvs {
			f.Entries = append(f.Entries, entryOf(kv))
		}
		found = append(found, f)
	}
	return found, nil
}

// Read reads one queue as List does; one in which nobody stands has no entries.
func Read(ctx context.Context, client *clientv3.Client, queues state.Queues, name string, limit int) (Found, error) {
	found, err := readAll(clientv3.WithRequireLeader(ctx), client, queues, []string{name}, limit)
	if err != nil || len(found) == 0 {
		return Found{Name: name}, err
	}
	return found[0], nil
}
