// Package objects contains only tests of whole nodes. They test the packages below it as package cluster
// assembles them.
//
//	Objects.At ── route ──► the owner's node          any gRPC client
//	                │  └──── link (many calls to a message) ──► │
//	        this node owns it                                gateway ── route, once, if the object is elsewhere
//	                └──────────────► host ◄─────────────────────┘
//
// The parts are:
//
//   - route finds the owner in the shard map, and sends calls again that were certainly not started.
//   - link carries unary calls between two processes.
//   - gateway accepts calls from other nodes and from any gRPC client.
//   - host activates objects and runs their turns.
//
// Not promised: anything. The package has no code.
package objects
