package sharding

import "github.com/cespare/xxhash/v2"

const (
	// DefaultShards is how many shards a cluster has unless it says otherwise.
	// The number is fixed for the life of a cluster: with another one nearly
	// every key belongs elsewhere.
	DefaultShards = 8192
	// MaxShards is the most that a map may have: one that is all in pieces, with a move
	// open for each shard, then still is well below the 1.5 MiB that etcd takes.
	MaxShards = 1 << 16
)

// Of is the shard of a key, from 0 to shards-1: the 64 bit xxHash (XXH64, seed
// 0) of the key's bytes, as an unsigned number, modulo shards. It is the same
// in every version and every language; testdata/keys.txt has examples. Keys are
// bytes: nothing is folded or normalised. It does not allocate, and panics if
// shards is not positive.
func Of(key string, shards int) int {
	if shards < 1 {
		panic("sharding: a key has no shard where there are no shards")
	}
	return int(xxhash.Sum64String(key) % uint64(shards))
}
