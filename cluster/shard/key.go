package shard

import "github.com/cespare/xxhash/v2"

const (
	// DefaultCount is how many shards a cluster has unless its configuration says otherwise.
	// The number is fixed for the life of a cluster: with another one nearly every key belongs
	// elsewhere.
	DefaultCount = 8192
	// MaxCount is the most that a cluster may have: a map of so many, all in pieces and with a
	// move open for each shard, still is well below the 1.5 MiB that etcd takes.
	MaxCount = 1 << 16
)

// Of is the shard of a key, from 0 to count-1: the 64 bit xxHash (XXH64, seed 0) of the key's
// bytes, as an unsigned number, modulo count. It is the same in every version and every
// language; testdata/keys.txt has examples. Keys are bytes: nothing is folded or normalised. It
// does not allocate, and panics if count is not positive.
func Of(key string, count int) int {
	if count < 1 {
		panic("shard: a key has no shard where there are no shards")
	}
	return int(xxhash.Sum64String(key) % uint64(count))
}
