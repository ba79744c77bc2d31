package wire

import (
	"math/bits"
	"sync"
)

// buffers holds the buffers of messages.
var buffers bufferPool

// The buffers have at least 1 KiB, and at most 4 MiB if they are reused.
const minClass, maxClass = 10, 22

// bufferPool pools buffers by powers of two. It implements mem.BufferPool, and does not clear buffers.
type bufferPool [maxClass + 1]sync.Pool

// Get implements mem.BufferPool.
func (p *bufferPool) Get(n int) *[]byte {
	class := max(minClass, bits.Len(uint(max(n, 1)-1)))
	if class > maxClass {
		b := make([]byte, n)
		return &b
	}
	b, ok := p[class].Get().(*[]byte)
	if !ok {
		made := make([]byte, n, 1<<class)
		return &made
	}
	*b = (*b)[:n]
	return b
}

// Put implements mem.BufferPool.
func (p *bufferPool) Put(b *[]byte) {
	if c := cap(*b); c >= 1<<minClass && c <= 1<<maxClass && c&(c-1) == 0 {
		p[bits.Len(uint(c)-1)].Put(b)
	}
}
