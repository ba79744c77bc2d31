package txn

import clientv3 "go.etcd.io/etcd/client/v3"

// Parts holds the comparisons and operations of one of etcd's transactions.
type Parts struct {
	If         []clientv3.Cmp
	Then, Else []clientv3.Op
}

// Collect returns a transaction whose Commit passes the parts collected until then to commit. It is not safe for
// concurrent use.
func Collect(commit func(Parts) (*clientv3.TxnResponse, error)) clientv3.Txn {
	return &collector{commit: commit}
}

type collector struct {
	parts  Parts
	commit func(Parts) (*clientv3.TxnResponse, error)
}

func (c *collector) If(cmps ...clientv3.Cmp) clientv3.Txn {
	c.parts.If = append(c.parts.If, cmps...)
	return c
}

func (c *collector) Then(ops ...clientv3.Op) clientv3.Txn {
	c.parts.Then = append(c.parts.Then, ops...)
	return c
}

func (c *collector) Else(ops ...clientv3.Op) clientv3.Txn {
	c.parts.Else = append(c.parts.Else, ops...)
	return c
}

func (c *collector) Commit() (*clientv3.TxnResponse, error) { return c.commit(c.parts) }
