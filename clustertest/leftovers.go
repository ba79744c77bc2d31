package clustertest

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/test/leak"
)

// goroutinePatience limits the wait for goroutines to end after the cluster was stopped.
const goroutinePatience = 3 * time.Second

// deleteLeftovers removes what the test left behind on purpose: leases of killed nodes, and keys from PutStrayKey.
func (c *Cluster) deleteLeftovers() {
	ctx, cancel := c.waitContext()
	defer cancel()
	for _, n := range c.Nodes() {
		n.mu.Lock()
		lease := n.lease
		n.mu.Unlock()
		if lease != 0 {
			_, _ = c.Client().Revoke(ctx, lease) // it may have expired
		}
	}
	c.mu.Lock()
	late := c.strayKeys
	c.mu.Unlock()
	for _, key := range late {
		_, _ = c.Client().Delete(ctx, key) // checkKeys reports a key that stays
	}
}

// checkKeys fails the test for every key of the cluster that is left.
func (c *Cluster) checkKeys() {
	ctx, cancel := c.waitContext()
	defer cancel()
	resp, err := c.Client().Get(ctx, c.keys.RangeStart(), clientv3.WithRange(c.keys.RangeEnd()))
	if err != nil {
		c.t.Errorf("clustertest: look for keys left behind: %v", err)
		return
	}
	for _, kv := range resp.Kvs {
		if string(kv.Key) == c.keys.ShardMap() {
			continue // it outlives all nodes
		}
		c.t.Errorf("clustertest: key left behind: %s = %q (lease %x)", kv.Key, kv.Value, kv.Lease)
	}
}

// checkGoroutines fails the test if a goroutine that a node started still runs.
func (c *Cluster) checkGoroutines() {
	if left := leak.AwaitNone(func() string { return leak.Stacks(c.label) }, goroutinePatience); left != "" {
		c.t.Errorf("clustertest: goroutines left behind:\n%s", left)
	}
}
