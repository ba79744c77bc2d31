// Package peer implements the nodes of package node: the gRPC server of one process, and the calls by which other
// processes identify it (Identify) and notice when it is gone (Watch). Users see the part of it that package node
// describes.
//
// Until its Start a node holds its port only if that was 0, which the kernel has to choose. Clients that dial it wait
// then; at any other port they are refused.
//
// Not promised: a node that can be reached need not be a member of any cluster, and a node that does not answer
// need not be dead. Only ErrRefused is evidence that no process listens, and it is no proof: a firewall, or a
// Service without endpoints, refuses too.
package peer
