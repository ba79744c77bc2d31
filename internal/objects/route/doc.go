// Package route brings calls to the node that owns their object's shard, and sends those anew that were
// certainly not started there.
//
// A call goes by the shard map as this process knows it. The node that it reaches knows better: it runs the
// call, lets it wait while the shard is on its way there, or answers that the shard is elsewhere, according to which
// generation of the map. The call then waits until this process has that map, and follows it. A node that cannot be
// reached is tried again until the map names another one, or the call's deadline.
//
// # What is not promised
//
//   - That a call runs once. One that was sent to a node that died may have run; it is sent anew only if its
//     method is idempotent.
//   - Anything about order among calls that are under way at the same time.
package route
