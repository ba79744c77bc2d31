package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are drawn from below those that the system gives to outgoing connections, and
// from a block that no other fleet draws from, of this process or another: nobody
// shall have taken one when its node starts again.
const (
	firstPort, lastPort = 10000, 20000
	blockSize           = 2000
	drawings            = 200
)

// block is a range of ports. Its first one is listened at to show that it is taken.
type block struct {
	first int
	claim net.Listener
}

func claimBlock() (*block, error) {
	var errs []error
	for first := firstPort; first < lastPort; first += blockSize {
		claim, err := net.Listen("tcp", local(first))
		if err == nil {
			return &block{first: first, claim: claim}, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no block of ports is free: %w", errors.Join(errs...))
}

// draw is an address of the block, not always a free one.
func (b *block) draw() string { return local(b.first + 1 + rand.IntN(blockSize-1)) }

func (b *block) release() { _ = b.claim.Close() }

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
