package peer

import (
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

// init sets a pool of buffers for gRPC with sizes between 32 KiB and 1 MiB. In gRPC's default pool, each
// message of 100 kB that waits to be sent takes a mebibyte, and the pool clears it. A program that sets another
// pool in its main function overrides this one.
func init() {
	if pool, err := mem.NewBinaryTieredBufferPool(8, 12, 14, 15, 16, 17, 18, 19, 20); err == nil {
		experimental.SetDefaultBufferPool(pool)
	}
}
