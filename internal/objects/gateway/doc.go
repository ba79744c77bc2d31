// Package gateway lets calls to objects in: those of other nodes, many to a stream, and those of any gRPC client,
// by the node's own server. A call for an object that is elsewhere is forwarded, once.
//
// # What is not promised
//
// A streaming call that has begun does not follow its object to another node: it ends with UNAVAILABLE.
package gateway
