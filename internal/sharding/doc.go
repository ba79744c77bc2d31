// Package sharding says which shard a key belongs to, who owns each shard, and
// how ownership moves with as few moves as possible.
//
// Everything here is pure: no goroutine, no clock, no I/O, no log. Values are
// shared freely between goroutines because nobody changes them after they were
// made.
//
// # Words
//
// A key belongs to a shard ([shard.Of]), forever. A shard has at most one [Owner], a
// member at its incarnation. The [Map] says who owns what; its generation grows
// with each version. The epoch of a shard is the generation that gave it to its
// owner: a fencing token for what the owner writes elsewhere. A [Move] that
// stands in the map is open: the owner has to wait for the one before it. A
// shard without an open move rests. A [Report] is what a member has released.
// [Plan] makes the next map of the present one and the members.
//
// # The handoff
//
//  1. The next map names the new owner B, and a [Move] with the old one, A, and its generation.
//  2. A sees that map, admits no more calls for the shard, and lets the running ones finish.
//  3. A reports that generation, and as busy what it has not released yet; then again for that.
//  4. B serves once the move is done ([Move.Done]), or at once if the map has none for the shard.
//  5. If B dies first, the next owner inherits the move: it waits for A, as B did.
//
// # What is not promised
//
// A map says who may serve, not who does: a member whose session is not valid
// serves nothing, whatever a map says, and finding that out is not done here.
//
// Nothing here compares a map with an older one, but for [Plan] with the
// current one. Who deletes the map from outside deletes its open moves too: the
// plan that follows gives every shard away without waiting for anybody. Epochs
// keep growing even then, because the caller takes generations from etcd's
// revisions, and those of a key's first map from the revision that created it
// ([Map.NotBefore]): a plan may be carried out late. So a store that checks the epoch
// refuses the old owner.
//
// The spread of keys over shards is that of a good hash, not of a keyed one:
// who chooses keys can choose them all in one shard.
package sharding
