// Package budget limits the bytes that wait in a node: queued calls, incomplete calls, and streams that are not
// read. The connections of a node share one Budget. No connection may hold more than half of what the others
// leave. So a connection that holds all that it may leaves as much for the others, and is the first to be
// refused.
//
// A Gate limits the requests of one connection that are being received at a time, and the requests that wait
// for that. It is needed because the length of a request is known only after it has arrived.
//
// Not promised: that bytes are counted exactly. Callers count the most that they may hold.
package budget
