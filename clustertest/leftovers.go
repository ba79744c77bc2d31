package clustertest

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// labelKey is the pprof label that every goroutine of a node inherits.
const labelKey = "goverse-clustertest"

// leaving is how long goroutines may take to end after what they served ended.
const leaving = 3 * time.Second

// sweep removes what the test left on purpose: leases of killed nodes, keys that
// were put from outside.
func (c *Cluster) sweep() {
	ctx, cancel := c.patience()
	defer cancel()
	for _, n := range c.Nodes() {
		n.mu.Lock()
		lease := n.lease
		n.mu.Unlock()
		if lease != 0 {
			_, _ = c.Client().Revoke(ctx, lease) // it may have run out
		}
	}
	c.mu.Lock()
	late := c.late
	c.mu.Unlock()
	for _, key := range late {
		_, _ = c.Client().Delete(ctx, key) // what stays is reported
	}
}

// checkKeys fails the test for every key of the cluster that is left.
func (c *Cluster) checkKeys() {
	ctx, cancel := c.patience()
	defer cancel()
	resp, err := c.Client().Get(ctx, c.keys.RangeStart(), clientv3.WithRange(c.keys.RangeEnd()))
	if err != nil {
		c.t.Errorf("clustertest: look for keys left behind: %v", err)
		return
	}
	for _, kv := range resp.Kvs {
		if string(kv.Key) == c.keys.ShardMap() {
			continue // it outlives everybody
		}
		c.t.Errorf("clustertest: key left behind: %s = %q (lease %x)", kv.Key, kv.Value, kv.Lease)
	}
}

// checkGoroutines fails the test if a goroutine that a node began still runs.
func (c *Cluster) checkGoroutines() {
	label := fmt.Sprintf("%q:%q", labelKey, c.id)
	deadline := time.NewTimer(leaving)
	defer deadline.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		left := goroutines(label)
		if left == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			c.t.Errorf("clustertest: goroutines left behind:\n%s", left)
			return
		}
	}
}

// goroutines are the stacks of the goroutines with that label.
func goroutines(label string) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return err.Error()
	}
	var out []string
	for block := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(block, label) {
			out = append(out, block)
		}
	}
	return strings.Join(out, "\n\n")
}
