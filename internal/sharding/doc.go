// Package sharding maps shards to owners, and moves ownership with as few moves as possible.
//
// The package is pure: no goroutine, no clock, no I/O, no log. Its values never change after they were made, so
// goroutines share them freely.
//
// # Words
//
// A key belongs to one shard ([shard.Of]), forever. A shard has at most one [Owner], which is a member at its
// incarnation. The [Map] assigns shards to owners; its generation grows with each version. The epoch of a shard
// is the generation that assigned it to its owner, and serves as a fencing token for the owner's writes
// elsewhere. A [Move] in the map is open: the new owner must wait until the former one has released the shard.
// A [Report] lists the shards that a member has not released yet. [Plan] computes the next map from the present
// one and the members.
//
// # The handoff
//
//  1. The next map names the new owner B, and a [Move] with the former owner A and the map's generation.
//  2. A sees that map, admits no more calls for the shard, and lets the running ones finish.
//  3. A reports that generation, with the shards that it has not released yet as busy. It reports again as it
//     releases them.
//  4. B serves once the move is done ([Move.Done]), or immediately if the map has no move for the shard.
//  5. If B dies first, the next owner inherits the move: it waits for A, as B did.
//
// # What is not promised
//
// A map assigns the right to serve. A member with an invalid session serves nothing, whatever the map says;
// this package does not check sessions.
//
// Only [Plan] compares a map with an earlier one, the current map. An out-of-band deletion of the map deletes
// its open moves too: the plan that follows assigns every shard without waiting for former owners. Epochs keep
// growing even then, because the caller takes generations from etcd's revisions, and those of a key's first map
// from the revision that created it ([Map.NotBefore]): a plan may be committed late. So a store that checks the
// epoch refuses the former owner.
//
// Keys are spread over shards by a good hash, but not by a keyed one: a client that chooses its keys can place
// all of them in one shard.
package sharding
