// Package node implements one process of a Goverse deployment: its gRPC server, at one address and with one
// random instance id. It does not depend on etcd or on a cluster.
//
//	NewNode ──> new ──Start──> serving ──Stop──> stopped
//	             └────────────Close─────────────────┘
//
// Between NewNode and Start, users register their own gRPC services with Server. Three services are always
// registered: the standard health service (SERVING while the node is part of its cluster), reflection, and
// goverse.node.v1.Node. With the last one other nodes identify the process that answers at an address, and notice
// when it is gone.
//
// Not promised: a node that can be reached need not be a member of any cluster, and a node that does not answer
// need not be dead.
package node
