// Package operator reads a cluster from outside. It also asks the cluster to move its leadership, that of a
// named election, or a node's shards, and records the outcome of an effect. It implements goversed's operator
// commands. It reads etcd, and asks the nodes for their objects. It is not a member: it leaves nothing in etcd
// except the outcome of an effect and, while a request is pending, that request on a lease of its own.
//
// Not promised: a view may be outdated when it is read, and nodes may not have seen yet what etcd shows. An
// operator sees the leader according to etcd; only the leader itself can tell if it may still act as such.
package operator
