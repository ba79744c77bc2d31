// Package peer implements the nodes of package node: the gRPC server of one process, and the calls by which other
// processes identify it (Identify) and notice when it is gone (Watch). Users see the part of it that package node
// describes.
//
// A bound node holds its port, so that no other process can take it, but does not answer yet: clients that dial
// it wait.
//
// Not promised: a node that can be reached need not be a member of any cluster, and a node that does not answer
// need not be dead. Only ErrRefused is evidence that no process listens, and it is no proof: a firewall, or a
// Service without endpoints, refuses too.
package peer
