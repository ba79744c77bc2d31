package clustertest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
)

// pollInterval is the interval at which a wait checks its condition even if no node reports a change. A deadline that
// passes, for example, is not an event.
const pollInterval = 10 * time.Millisecond

// Eventually waits until cond holds. It checks cond after every change that a node reports, and every 10 ms. If
// cond does not hold within the cluster's patience, the test fails with the message and every node's status.
func (c *Cluster) Eventually(cond func() bool, format string, args ...any) {
	c.t.Helper()
	if !c.waitUntil(c.opts.patience, cond) {
		c.failTest("not within %v: %s", c.opts.patience, fmt.Sprintf(format, args...))
	}
}

// Within is Eventually with its own time limit, for conditions that must hold in time.
func (c *Cluster) Within(d time.Duration, cond func() bool, format string, args ...any) {
	c.t.Helper()
	if !c.waitUntil(d, cond) {
		c.failTest("not within %v: %s", d, fmt.Sprintf(format, args...))
	}
}

func (c *Cluster) waitUntil(d time.Duration, cond func() bool) bool {
	bound := time.NewTimer(d)
	defer bound.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	changes := map[*Node]<-chan leaderelection.Leader{}
	for !cond() {
		cases := []reflect.SelectCase{
			{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(bound.C)},
			{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(tick.C)}}
		for _, n := range c.Nodes() { // each round, because nodes are added and started meanwhile
			if changes[n] == nil {
				changed, err := n.cluster.WatchLeader(ctx)
				if err != nil {
					continue // not started yet, or stopped
				}
				changes[n] = changed
			}
			cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(changes[n])})
		}
		chosen, _, open := reflect.Select(cases)
		if chosen == 0 {
			return cond()
		}
		if !open {
			maps.DeleteFunc(changes, func(_ *Node, c <-chan leaderelection.Leader) bool {
				return reflect.ValueOf(c) == cases[chosen].Chan
			})
		}
	}
	return true
}

// WaitLeader waits until a node claims to lead, and returns it.
func (c *Cluster) WaitLeader() *Node {
	c.t.Helper()
	var leader *Node
	c.Eventually(func() bool {
		for _, n := range c.Nodes() {
			if n.IsLeader() {
				leader = n
				return true
			}
		}
		return false
	}, "a node leads")
	return leader
}

// WaitLeaderIs waits until every live node reports the leader at address; see [Cluster.Live].
func (c *Cluster) WaitLeaderIs(address string) {
	c.t.Helper()
	c.Eventually(func() bool { return c.agreedLeader() == address }, "all live nodes name %q as the leader", address)
}

// WaitAgreed waits until all live nodes report the same leader, and returns its address.
func (c *Cluster) WaitAgreed() string {
	c.t.Helper()
	var leader string
	c.Eventually(func() bool {
		leader = c.agreedLeader()
		return leader != ""
	}, "all live nodes name the same leader")
	return leader
}

// agreedLeader returns the leader that all live nodes report, or "" while they differ.
func (c *Cluster) agreedLeader() string {
	leader := ""
	for _, n := range c.Live() {
		named := n.cluster.GetLeaderNode()
		if named == "" || leader != "" && named != leader {
			return ""
		}
		leader = named
	}
	return leader
}

// WaitQueue waits until every live node sees exactly these addresses queued, in this order. The first one is
// the leader's.
func (c *Cluster) WaitQueue(addresses ...string) {
	c.t.Helper()
	c.Eventually(func() bool {
		for _, n := range c.Live() {
			if !slices.Equal(n.cluster.Status().Queue, addresses) {
				return false
			}
		}
		return true
	}, "the queue is %v", addresses)
}

// failTest ends the test with the message and every node's status.
func (c *Cluster) failTest(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("clustertest: %s\n%s", fmt.Sprintf(format, args...), c.Describe())
}

// Describe returns every node's status, one line each, for messages.
func (c *Cluster) Describe() string {
	var b strings.Builder
	for _, n := range c.Nodes() {
		fmt.Fprintf(&b, "node %d %s", n.index, n.Address())
		if !n.isRunning() {
			b.WriteString(": down\n")
			continue
		}
		st := n.cluster.Status()
		fmt.Fprintf(&b, ": %s, leader %q token %d, mode %s, lease %x valid %t, queue %v, nodes %v, revision %d, terms %d, "+
			"sessions lost %d, rebuilds %d",
			st.State, st.LeaderID, st.Token, st.Mode, int64(n.Lease()), st.SessionValid, st.Queue, st.Nodes, st.Revision,
			st.Terms, st.SessionsLost, st.Rebuilds)
		if st.LastEnd != nil {
			fmt.Fprintf(&b, ", last term ended: %v", st.LastEnd)
		}
		if st.ElectionFailed != "" {
			fmt.Fprintf(&b, ", election failed: %s", st.ElectionFailed)
		}
		if faults := n.faults.String(); faults != "" {
			fmt.Fprintf(&b, ", faults: %s", faults)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
