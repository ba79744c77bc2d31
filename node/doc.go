// Package node is one process of a Goverse deployment: its gRPC server, under one
// address and one random instance id. It knows nothing of etcd or of a cluster.
//
//	NewNode ──> bound ──Start──> serving ──Stop──> stopped
//	              └─────────────Close──────────────────┘
//
// A bound node already holds its port, so nobody else can take it, but answers
// nothing yet: who dials it waits. Between NewNode and Start, users register their
// own gRPC services at Server. Three services are always there: the standard
// health service (NOT_SERVING until SetReady), reflection, and goverse.node.v1.Node,
// by which others learn which process answers at an address (Identify), and when it
// is gone (Watch).
//
// Not promised: that a reachable node is a member of any cluster, or that one that
// answers nothing is dead. Only ErrRefused is evidence that nobody listens, and it
// is no more than evidence: a firewall, or a Service without endpoints, refuses too.
package node
