package clustertest

import (
	clientv3 "go.etcd.io/etcd/client/v3"
)

// RevokeLease revokes the lease of a node's session out of band. The node's record, its candidate key and all
// other keys on the lease vanish.
func (c *Cluster) RevokeLease(n *Node) {
	c.t.Helper()
	ctx, cancel := c.waitContext()
	defer cancel()
	if _, err := c.Client().Revoke(ctx, c.leaseOf(n)); err != nil {
		c.failTest("revoke the lease of node %d: %v", n.index, err)
	}
}

// DeleteCandidateKey deletes a node's candidate key out of band; its lease stays alive. The test fails if the
// node was not queued.
func (c *Cluster) DeleteCandidateKey(n *Node) {
	c.t.Helper()
	ctx, cancel := c.waitContext()
	defer cancel()
	resp, err := c.Client().Delete(ctx, c.keys.Candidate(int64(c.leaseOf(n))))
	if err != nil || resp.Deleted == 0 {
		c.failTest("delete the candidate key of node %d: not queued, or %v", n.index, err)
	}
}

// PutLateCandidateKey puts a node's candidate key on its lease, as a delayed request would that its caller has
// seen time out. It returns the revision of the write.
func (c *Cluster) PutLateCandidateKey(n *Node) int64 {
	c.t.Helper()
	ctx, cancel := c.waitContext()
	defer cancel()
	lease := c.leaseOf(n)
	resp, err := c.Client().Put(ctx, c.keys.Candidate(int64(lease)), n.Address(), clientv3.WithLease(lease))
	if err != nil {
		c.failTest("put the candidate key of node %d: %v", n.index, err)
	}
	return resp.Header.Revision
}

// PutStrayKey puts a key that belongs to no node and is on no lease, for example below the queue. The key is
// deleted when the test ends, or earlier by remove.
func (c *Cluster) PutStrayKey(key, value string) (remove func()) {
	c.t.Helper()
	ctx, cancel := c.waitContext()
	defer cancel()
	if _, err := c.Client().Put(ctx, key, value); err != nil {
		c.failTest("put %s: %v", key, err)
	}
	c.mu.Lock()
	c.strayKeys = append(c.strayKeys, key)
	c.mu.Unlock()
	return func() {
		c.t.Helper()
		ctx, cancel := c.waitContext()
		defer cancel()
		if _, err := c.Client().Delete(ctx, key); err != nil {
			c.failTest("delete %s: %v", key, err)
		}
	}
}

func (c *Cluster) leaseOf(n *Node) clientv3.LeaseID {
	c.t.Helper()
	lease := n.Lease()
	if lease == 0 {
		c.failTest("node %d has no session at the moment", n.index)
	}
	return lease
}
