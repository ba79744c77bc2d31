// Package node implements one process of a Goverse deployment: its gRPC server, at one address and with one
// random instance id. It does not depend on etcd or on a cluster.
//
//	NewNode ──> bound ──Start──> serving ──Stop──> stopped
//	              └─────────────Close──────────────────┘
//
// A bound node holds its port, so that no other process can take it, but does not answer yet: clients that dial
// it wait. Between NewNode and Start, users register their own gRPC services with Server. Three services are
// always registered: the standard health service (NOT_SERVING until SetReady), reflection, and
// goverse.node.v1.Node. With the last one other processes identify the process that answers at an address
// (Identify), and notice when it is gone (Watch).
//
// Not promised: a node that can be reached need not be a member of any cluster, and a node that does not answer
// need not be dead. Only ErrRefused is evidence that no process listens, and it is no proof: a firewall, or a
// Service without endpoints, refuses too.
package node
