// Package route sends each call to the node that owns its object's shard. It sends a call again if the call was
// certainly not started.
//
// A call follows the shard map as this process knows it. The node that receives the call may know a newer map.
// It runs the call, queues it while the shard is moving to it, or answers that the shard is elsewhere, with the
// generation of the map that moved it. The call then waits until this process has that map, and follows it. A
// node that cannot be reached is tried again until the map names another one, or until the call's deadline.
//
// # What is not promised
//
//   - That a call runs once. A call to a node that died may have run; it is sent again only if its method is
//     idempotent.
//   - Any order among calls that are in flight at the same time.
package route
