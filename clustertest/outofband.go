package clustertest

import (
	clientv3 "go.etcd.io/etcd/client/v3"
)

// RevokeLease revokes the lease of a node's session from outside: its record,
// its candidacy and all else on the lease vanish.
func (c *Cluster) RevokeLease(n *Node) {
	c.t.Helper()
	ctx, cancel := c.patience()
	defer cancel()
	if _, err := c.Client().Revoke(ctx, c.leaseOf(n)); err != nil {
		c.fail("revoke the lease of node %d: %v", n.index, err)
	}
}

// DeleteCandidateKey deletes a node's place in the queue from outside; its lease
// stays alive. The test fails if there was none.
func (c *Cluster) DeleteCandidateKey(n *Node) {
	c.t.Helper()
	ctx, cancel := c.patience()
	defer cancel()
	resp, err := c.Client().Delete(ctx, c.keys.Candidate(int64(c.leaseOf(n))))
	if err != nil || resp.Deleted == 0 {
		c.fail("delete the candidate key of node %d: not queued, or %v", n.index, err)
	}
}

// PutLateCandidateKey puts a node's candidate key, on its lease, as a request
// would that timed out and is carried out late. It returns the key's revision.
func (c *Cluster) PutLateCandidateKey(n *Node) int64 {
	c.t.Helper()
	ctx, cancel := c.patience()
	defer cancel()
	lease := c.leaseOf(n)
	resp, err := c.Client().Put(ctx, c.keys.Candidate(int64(lease)), n.Address(), clientv3.WithLease(lease))
	if err != nil {
		c.fail("put the candidate key of node %d: %v", n.index, err)
	}
	return resp.Header.Revision
}

// PutStrayKey puts a key that is no node's, on no lease, for example below the
// queue. It is removed with the test. Remove ends it sooner.
func (c *Cluster) PutStrayKey(key, value string) (remove func()) {
	c.t.Helper()
	ctx, cancel := c.patience()
	defer cancel()
	if _, err := c.Client().Put(ctx, key, value); err != nil {
		c.fail("put %s: %v", key, err)
	}
	c.mu.Lock()
	c.late = append(c.late, key)
	c.mu.Unlock()
	return func() {
		c.t.Helper()
		ctx, cancel := c.patience()
		defer cancel()
		if _, err := c.Client().Delete(ctx, key); err != nil {
			c.fail("delete %s: %v", key, err)
		}
	}
}

func (c *Cluster) leaseOf(n *Node) clientv3.LeaseID {
	c.t.Helper()
	lease := n.Lease()
	if lease == 0 {
		c.fail("node %d has no session at the moment", n.index)
	}
	return lease
}
