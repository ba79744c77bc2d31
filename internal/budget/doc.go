// Package budget bounds the bytes that wait in a node for somebody: calls that are queued, calls of which parts are
// missing, streams that are not read. A Budget is for the whole node and is shared by its connections: none of them
// may hold more than half of what the others leave. So one that holds all that it may leaves as much for the others,
// and is itself the one that is refused.
//
// A Gate bounds how many requests of one connection are being received at a time, and how many wait for that: how long
// a request is shows only when it is there.
//
// Not promised: that bytes are counted exactly. Those who hold them say how many there are at most.
package budget
