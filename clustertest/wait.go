package clustertest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goverse/goverse/cluster/election"
)

// glance is how often a wait looks again although no node reported a change: the
// passing of a deadline, for one, is not an event.
const glance = 10 * time.Millisecond

// Eventually waits until cond holds. It looks again after every change that a
// node reports, and every few milliseconds. If it takes too long, the test fails
// with the message and every node's status.
func (c *Cluster) Eventually(cond func() bool, format string, args ...any) {
	c.t.Helper()
	if !c.await(c.opts.patience, cond) {
		c.fail("not within %v: %s", c.opts.patience, fmt.Sprintf(format, args...))
	}
}

// Within is Eventually with a bound of its own, for what must happen in time.
func (c *Cluster) Within(d time.Duration, cond func() bool, format string, args ...any) {
	c.t.Helper()
	if !c.await(d, cond) {
		c.fail("not within %v: %s", d, fmt.Sprintf(format, args...))
	}
}

func (c *Cluster) await(d time.Duration, cond func() bool) bool {
	bound := time.NewTimer(d)
	defer bound.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	changes := map[*Node]<-chan election.Leader{}
	for !cond() {
		cases := []reflect.SelectCase{
			{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(bound.C)},
			{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(tick.C)}}
		for _, n := range c.Nodes() { // anew: nodes come, and start again
			if changes[n] == nil {
				changed, err := n.cluster.WatchLeader(ctx)
				if err != nil {
					continue // it is not started, or has stopped
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
			maps.DeleteFunc(changes, func(_ *Node, c <-chan election.Leader) bool {
				return reflect.ValueOf(c) == cases[chosen].Chan
			})
		}
	}
	return true
}

// WaitLeader waits until a node says that it leads, and returns it.
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

// WaitLeaderIs waits until every live node names the leader at address; see [Cluster.Live].
func (c *Cluster) WaitLeaderIs(address string) {
	c.t.Helper()
	c.Eventually(func() bool { return c.agreed() == address }, "all live nodes name %q as the leader", address)
}

// WaitAgreed waits until all live nodes name the same leader, and returns its
// address.
func (c *Cluster) WaitAgreed() string {
	c.t.Helper()
	var leader string
	c.Eventually(func() bool {
		leader = c.agreed()
		return leader != ""
	}, "all live nodes name the same leader")
	return leader
}

// agreed is the leader whom all live nodes name, "" while they differ. A leader
// that is one of them must itself say so.
func (c *Cluster) agreed() string {
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

// WaitQueue waits until every live node sees exactly these addresses queued, in
// this order; the first is the leader's.
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

// fail ends the test and shows what every node has to say.
func (c *Cluster) fail(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("clustertest: %s\n%s", fmt.Sprintf(format, args...), c.Describe())
}

// Describe is every node's status, a line each, for messages.
func (c *Cluster) Describe() string {
	var b strings.Builder
	for _, n := range c.Nodes() {
		fmt.Fprintf(&b, "node %d %s", n.index, n.Address())
		if !n.running() {
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
