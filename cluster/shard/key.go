package shard

import "github.com/cespare/xxhash/v2"

const (
	// DefaultCount is the number of shards unless the cluster's configuration sets another. The number is fixed
	// for the life of a cluster: with another number, nearly every key would belong to another shard.
	DefaultCount = 8192
	// MaxCount is the largest number of shards that a cluster may have. A shard map of that size stays well
	// below etcd's limit of 1.5 MiB even if it is fully fragmented and every shard has an open move.
	MaxCount = 1 << 16
)

// Of returns the shard of a key, from 0 to count-1. It is the 64-bit xxHash (XXH64, seed 0) of the key's bytes,
// as an unsigned number, modulo count. All versions and languages compute the same value; testdata/keys.txt has
// examples. Keys are bytes: Of neither folds case nor normalizes. Of does not allocate. It panics if count is
// not positive.
func Of(key string, count int) int {
	if count < 1 {
		panic("shard: a key has no shard where there are no shards")
	}
	return int(xxhash.Sum64String(key) % uint64(count))
}
