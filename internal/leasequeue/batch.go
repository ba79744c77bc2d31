package leasequeue

import (
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// levelOps is how many operations etcd takes in a transaction unless it was configured
	// otherwise. What a transaction inside of it contains counts on from the outer ones, but its
	// neighbours' do not.
	levelOps = 128
	// groups is how many such transactions a large batch is parted into: etcd's and our own work
	// is less by the operation the more of them go together, but all others wait for so long as
	// etcd carries one out.
	groups   = 4
	groupOps = levelOps - 1 - groups
	// mostOps is how many operations go together; one more is the batch's own.
	mostOps = groups * groupOps
)

// composer makes etcd's operations of batches. What it returns is good until it is asked again.
type composer struct {
	enter, look, leave clientv3.Op // without a key
	ops, outer         []clientv3.Op
}

func newComposer(lease clientv3.LeaseID) *composer {
	return &composer{
		enter: clientv3.OpPut("", "", clientv3.WithLease(lease)),
		look:  clientv3.OpGet("", clientv3.WithPrefix(), clientv3.WithCountOnly()),
		leave: clientv3.OpDelete(""),
	}
}

// compose is the batch with that number, which the counter says.
func (c *composer) compose(counter string, number int64, batch []op) []clientv3.Op {
	c.ops = append(c.ops[:0], c.put(counter, strconv.FormatInt(number, 10)))
	for _, o := range batch {
		if o.enter {
			c.ops = append(c.ops, c.put(o.entry.key, o.entry.Value), c.lookAtOnce(o.entry))
		} else {
			leave := c.leave
			leave.WithKeyBytes([]byte(o.entry.key))
			c.ops = append(c.ops, leave)
		}
	}
	if len(c.ops) <= levelOps {
		return c.ops
	}
	c.outer = append(c.outer[:0], c.ops[0])
	for rest := c.ops[1:]; len(rest) > 0; {
		n := min(len(rest), groupOps)
		c.outer = append(c.outer, clientv3.OpTxn(nil, rest[:n], nil))
		rest = rest[n:]
	}
	return c.outer
}

// forget drops the last batch's keys, but not the memory for so many.
func (c *composer) forget() { clear(c.ops); clear(c.outer) }

func (c *composer) put(key, value string) clientv3.Op {
	put := c.enter
	put.WithKeyBytes([]byte(key))
	put.WithValueBytes([]byte(value))
	return put
}

// readQueue reads who is first; for who would share, all.
func readQueue(x *Entry) clientv3.Op {
	opts := []clientv3.OpOption{clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)}
	if !x.Shared {
		opts = append(opts, clientv3.WithLimit(1), clientv3.WithKeysOnly())
	}
	return clientv3.OpGet(x.queue, opts...)
}

// lookAtOnce is readQueue in the transaction that enters: all others in the queue came before, so to
// count them is enough; for who would share, it is not.
func (c *composer) lookAtOnce(x *Entry) clientv3.Op {
	if x.Shared {
		return readQueue(x)
	}
	count, both := c.look, make([]byte, 0, 2*len(x.queue))
	both = append(append(both, x.queue...), x.queue...)
	from, end := both[:len(x.queue)], both[len(x.queue):]
	end[len(end)-1]++ // it is a slash
	count.WithKeyBytes(from)
	count.WithRangeBytes(end)
	return count
}

// answers are those to a batch's operations, as compose was given them.
func answers(resp *clientv3.TxnResponse) []*pb.ResponseOp {
	all := resp.Responses[1:] // after the counter
	if len(all) == 0 || all[0].GetResponseTxn() == nil {
		return all
	}
	var inner []*pb.ResponseOp
	for _, group := range all {
		inner = append(inner, group.GetResponseTxn().Responses...)
	}
	return inner
}
