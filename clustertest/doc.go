// Package clustertest runs whole clusters inside a Go test. All nodes use one embedded etcd, start in a
// fraction of a second, and have faults that can be switched on and off for each node.
//
//	c := clustertest.New(t, 3)          // three nodes, queued in their order
//	first := c.WaitLeader()
//	first.Faults().CutOff()             // etcd no longer answers this node
//	c.WaitLeaderIs(c.Node(1).Address())
//	first.Faults().Reconnect()
//	c.WaitQueue(c.Node(1).Address(), c.Node(2).Address(), first.Address())
//
// Everything is stopped when the test ends. The test fails if a node leaves a goroutine behind, or if a key of
// the cluster is left in etcd.
//
// [WithDistance] delays the traffic between a node and etcd, in both directions. With [WithEntrances] the
// address of a living node can refuse connections.
//
// Each node has an etcd client of its own, into which its faults are injected. No fault affects
// [Cluster.Client]. The waits observe the nodes and etcd and return as soon as the condition holds. If it does
// not hold in time, they fail the test with every node's status.
//
// # What is not promised
//
// A fault lies between a node and its etcd client, not in the kernel. Data that etcd sent before a watch was
// frozen or a node was cut off may still arrive. [Node.Kill] abandons a node inside the living process;
// goroutines that a test started in that node are the test's to end. Timing is not promised on a busy machine:
// a lease of a second or two expires if the machine stands still for that long.
//
// Experimental: the API of this package may change in any minor release.
package clustertest
