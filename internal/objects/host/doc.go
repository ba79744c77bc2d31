// Package host runs the objects of one node: it activates them when they are called, lets their calls take
// turns, and deactivates them when they are idle or their shard leaves.
//
// Everything about the objects of one shard is under that shard's lock: who is activated, who has the turn, who
// waits. A call that finds its object free takes the turn under that lock and runs; one that does not is a
// [waiter] in the object's queue, and who ends a turn passes it on. A queued call has no goroutine here.
//
//	          first call            factory has returned
//	empty ───────────────► activating ───────────────► active ──┐ turns
//	  ▲                        │ it failed                │ ▲───┘
//	  └────────────────────────┴──── deactivating ◄───────┘ idle, evicted, dropped; its shard leaves
//
// Each turn, activation and deactivation has entered the shard ([Shards].Enter), so that the shard is not handed
// over before it has ended. Where the shard is not served, calls stay queued; one goroutine for the shard
// waits until it is, or belongs to another node, and resolves them. Deactivated is the last turn of an object; what it
// calls waits for no other deactivation and no other shard.
//
// # What is not promised
//
//   - Order among calls that came at the same time, or that were sent anew because their shard moved.
//   - That an object's method, or its factory, ends when its context does. What does not holds up its own
//     object, and the move of its shard.
package host
