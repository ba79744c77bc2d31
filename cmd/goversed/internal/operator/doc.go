// Package operator looks at a cluster from outside and asks it to move its
// leadership, that of a named election, or a node's shards, or says what became of an effect:
// what goversed's operators' commands do. It asks etcd, and the nodes for their objects. It is no
// member: it leaves nothing in etcd but what it says of an effect and, while a request is under
// way, the request on a lease of its own.
//
// Not promised: that a view is still true when it is read, or that etcd's view is
// what every node sees already. An operator sees who leads according to etcd; only
// the leader itself knows whether it still may act on it.
package operator
