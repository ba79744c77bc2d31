// Package objects has nothing but tests of whole nodes: of the packages below it, as package cluster assembles them.
//
//		Objects.At ── route ──► the owner's node          any gRPC client
//		                │  └──── link (many calls to a message) ──► │
//		        this node owns it                                gateway ── route, once, if the object is elsewhere
//		                └──────────────► host ◄─────────────────────┘
//
//	  - route finds the owner by the shard map, and sends anew what was certainly not started.
//	  - link carries unary calls between two processes.
//	  - gateway lets calls in, from other nodes and from any gRPC client.
//	  - host activates objects, and gives them turns.
//
// Not promised: anything. There is no code in it.
package objects
