package fleet

import (
	"errors"
	"fmt"
	"net"

	"github.com/goverse/goverse/internal/port"
)

// Ports are drawn from a block that no other fleet of any process uses, so that a node can bind its port again
// when it restarts.
const (
	firstPort, lastPort = 10000, 20000
	blockSize           = 2000
	drawings            = 200
)

// block is a range of ports. A listener on the first port marks the block as used.
type block struct {
	*port.Range
	first int
	claim net.Listener
}

func claimBlock() (*block, error) {
	var errs []error
	for first := firstPort; first < lastPort; first += blockSize {
		claim, err := net.Listen("tcp", local(first))
		if err == nil {
			return &block{port.NewRange(first+1, first+blockSize), first, claim}, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no block of ports is free: %w", errors.Join(errs...))
}

func (b *block) release() { _ = b.claim.Close() }

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
