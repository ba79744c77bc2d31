package node

import (
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

// gRPC's own pool has nothing between 32 KiB and 1 MiB: each message of 100 kB that waits to be sent takes a mebibyte,
// and has it cleared. A program that sets another pool in its main wins.
func init() {
	if pool, err := mem.NewBinaryTieredBufferPool(8, 12, 14, 15, 16, 17, 18, 19, 20); err == nil {
		experimental.SetDefaultBufferPool(pool)
	}
}
