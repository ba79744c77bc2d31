// Package gateway accepts calls to objects through the node's gRPC server: those of other nodes, many to a
// stream, and those of any gRPC client. It forwards a call once if the object is on another node.
//
// # What is not promised
//
// A streaming call that has begun does not follow its object to another node: it ends with UNAVAILABLE.
package gateway
