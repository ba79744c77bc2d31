// Package host runs the objects of one node. It activates an object at its first call, runs its calls as turns,
// and deactivates it when it is idle or its shard leaves the node.
//
// The lock of a shard protects all state of its objects: the activations, the running turns and the queues. A [Call]
// that finds its object free takes the turn under that lock and runs. Any other call waits in the object's
// [turnQueue] and has no goroutine here. The end of a turn begins the next one.
//
//	          first call            factory has returned
//	empty ───────────────► activating ───────────────► active ──┐ turns
//	  ▲                        │ it failed                │ ▲───┘
//	  └────────────────────────┴──── deactivating ◄───────┘ idle, evicted, dropped; its shard leaves
//
// Each turn, activation and deactivation enters its [shard] ([Shards].Enter), so the shard is not handed over
// before it has ended. While the shard is not served, calls stay queued. One goroutine for the shard then waits
// until this node serves it or the map assigns it to another node, and resolves the calls. Deactivated is the
// last turn of an object. The calls that it makes wait neither for another deactivation nor for another shard.
//
// # What is not promised
//
//   - Order among calls that arrive at the same time, or that were sent again because their shard moved.
//   - That a method or a factory ends when its context does. One that continues delays its own object and the
//     move of its shard.
package host
