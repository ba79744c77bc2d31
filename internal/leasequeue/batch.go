package leasequeue

import (
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// maxTxnOps is etcd's default limit of operations in a transaction. A nested transaction counts together
	// with the outer ones, but not with its neighbours.
	maxTxnOps = 128
	// groupsPerBatch is the number of nested transactions in a large batch. The larger a batch, the less work per
	// operation for etcd and this process, but everything else waits while etcd carries one out.
	groupsPerBatch = 4
	opsPerGroup    = maxTxnOps - 1 - groupsPerBatch
	// maxBatchOps limits the operations of a batch, beside the one for its counter.
	maxBatchOps = groupsPerBatch * opsPerGroup
)

// composer builds etcd operations for batches. Its result is valid until the next call.
type composer struct {
	putTemplate, countTemplate, deleteTemplate clientv3.Op // templates without a key
	ops, outer                                 []clientv3.Op
}

func newComposer(lease clientv3.LeaseID) *composer {
	return &composer{
		putTemplate:    clientv3.OpPut("", "", clientv3.WithLease(lease)),
		countTemplate:  clientv3.OpGet("", clientv3.WithPrefix(), clientv3.WithCountOnly()),
		deleteTemplate: clientv3.OpDelete(""),
	}
}

// compose returns the operations of the batch, which set counter to number.
func (c *composer) compose(counter string, number int64, batch []queueOp) []clientv3.Op {
	c.ops = append(c.ops[:0], c.putOp(counter, strconv.FormatInt(number, 10)))
	for _, o := range batch {
		if o.creates {
			c.ops = append(c.ops, c.putOp(o.entry.key, o.entry.Value), c.checkHeadOp(o.entry))
		} else {
			leave := c.deleteTemplate
			leave.WithKeyBytes([]byte(o.entry.key))
			c.ops = append(c.ops, leave)
		}
	}
	if len(c.ops) <= maxTxnOps {
		return c.ops
	}
	c.outer = append(c.outer[:0], c.ops[0])
	for rest := c.ops[1:]; len(rest) > 0; {
		n := min(len(rest), opsPerGroup)
		c.outer = append(c.outer, clientv3.OpTxn(nil, rest[:n], nil))
		rest = rest[n:]
	}
	return c.outer
}

// dropKeys drops the keys of the last batch but keeps the memory.
func (c *composer) dropKeys() { clear(c.ops); clear(c.outer) }

func (c *composer) putOp(key, value string) clientv3.Op {
	put := c.putTemplate
	put.WithKeyBytes([]byte(key))
	put.WithValueBytes([]byte(value))
	return put
}

// readQueueOp returns a read of the first entry, or of the whole queue for a shared entry.
func readQueueOp(x *Entry) clientv3.Op {
	opts := []clientv3.OpOption{clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)}
	if !x.Shared {
		opts = append(opts, clientv3.WithLimit(1), clientv3.WithKeysOnly())
	}
	return clientv3.OpGet(x.queue, opts...)
}

// checkHeadOp is readQueueOp for the transaction that creates the entry. All other entries came before, so a count
// is enough, except for a shared entry.
func (c *composer) checkHeadOp(x *Entry) clientv3.Op {
	if x.Shared {
		return readQueueOp(x)
	}
	count, both := c.countTemplate, make([]byte, 0, 2*len(x.queue))
	both = append(append(both, x.queue...), x.queue...)
	from, end := both[:len(x.queue)], both[len(x.queue):]
	end[len(end)-1]++ // the last byte is a slash
	count.WithKeyBytes(from)
	count.WithRangeBytes(end)
	return count
}

// batchResponses returns the responses to a batch's operations, in the order in which compose received them.
func batchResponses(resp *clientv3.TxnResponse) []*pb.ResponseOp {
	all := resp.Responses[1:] // skips the counter
	if len(all) == 0 || all[0].GetResponseTxn() == nil {
		return all
	}
	var inner []*pb.ResponseOp
	for _, group := range all {
		inner = append(inner, group.GetResponseTxn().Responses...)
	}
	return inner
}
