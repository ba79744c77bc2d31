package target

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/report"
)

const (
	// paperNodes is the number of nodes for which costs are only computed.
	paperNodes = 10_000.0
	// paperTTL is the default TTL in seconds; a session renews after each third of it.
	paperTTL = 10.0
	// writesPerNode is the sum of the writes of a stopping node (its draining mark, its resignation, the
	// revocation) and of a starting node (its record and its candidacy).
	writesPerNode = 5
)

// renew makes n renewals like a node, one after the other. Each is followed by a read of the two keys on the
// session of a candidate.
func renew(ctx context.Context, p *etcdproc.Process, n int) (etcdproc.Tally, error) {
	clients, closeAll, err := dial(ctx, p.Endpoint, 1)
	if err != nil {
		return etcdproc.Tally{}, err
	}
	defer closeAll()
	c := clients[0]
	lease, err := c.Grant(ctx, int64(scaleTTL.Seconds()))
	if err != nil {
		return etcdproc.Tally{}, err
	}
	keys := []string{"/goverse/nodes/127.0.0.1:47001", fmt.Sprintf("/goverse/leader/%x", int64(lease.ID))}
	var reads []clientv3.Op
	for _, key := range keys {
		if _, err := c.Put(ctx, key, "127.0.0.1:47001", clientv3.WithLease(lease.ID)); err != nil {
			return etcdproc.Tally{}, err
		}
		reads = append(reads, clientv3.OpGet(key, clientv3.WithKeysOnly()))
	}
	return p.Tally(ctx, func() error {
		for range n {
			if _, err := c.KeepAliveOnce(ctx, lease.ID); err != nil {
				return err
			}
			if _, err := c.Txn(ctx).Then(reads...).Commit(); err != nil {
				return err
			}
		}
		return nil
	})
}

// onPaper extrapolates from the largest size to paperNodes, to show which resource would run out first.
func onPaper(r *report.Result, all []*population, renewal etcdproc.Tally, renewals int) {
	largest := all[len(all)-1]
	times := paperNodes / float64(largest.nodes)
	name := fmt.Sprintf("on paper, %.0f nodes: ", paperNodes)

	join := largest.join.tally
	r.Row(name+"all join at once", "", fmt.Sprintf("%.0f s of etcd's processor, %.0f M messages to watches, %.1f GiB "+
		"sent; a session lasts %.0f s",
		join.CPU.Seconds()*times*times, join.Delivered*times*times/1e6, join.Sent*times*times/mib/kib, paperTTL),
		report.Context)

	perRenewal := renewal.CPU.Seconds() / float64(renewals)
	perSecond := paperNodes / (paperTTL / 3)
	r.Row(name+"renewals", "", fmt.Sprintf("%.0f a second, each with a read: %.0f µs of etcd's processor both, %.1f "+
		"cores in all",
		perSecond, perRenewal*1e6, perRenewal*perSecond), report.Context)

	n := float64(len(largest.revoked.agreed.Values))
	fan := largest.revoked.tally
	perMessage := fan.CPU.Seconds() / fan.Delivered
	r.Row(name+"a failover", "", fmt.Sprintf("%.0f messages to watches at %.1f µs of etcd's processor: %.0f ms; %.1f "+
		"MiB sent",
		fan.Delivered/n*times, perMessage*1e6, fan.CPU.Seconds()/n*times*1000, fan.Sent/n*times/mib), report.Context)

	r.Row(name+"one node is replaced", "", fmt.Sprintf("%d writes sent to all: %.1f s of etcd's processor, so at most "+
		"%.1f a second and core",
		writesPerNode, writesPerNode*paperNodes*perMessage, 1/(writesPerNode*paperNodes*perMessage)), report.Context)

	u := largest.node
	r.Row(name+"memory and connections", "", fmt.Sprintf("etcd %.1f GiB and %.0f k goroutines; a node's own snapshot "+
		"%.1f MiB",
		u.etcdResident*times/mib/kib, u.etcdGoroutines*times/1000, perPeer(all)*paperNodes/mib), report.Context)
}

// perPeer returns the bytes by which a node's heap grows with every other node.
func perPeer(all []*population) float64 {
	small, large := all[len(all)-2], all[len(all)-1]
	return (large.node.heap/float64(large.nodes) - small.node.heap/float64(small.nodes)) / float64(large.nodes-small.nodes)
}
