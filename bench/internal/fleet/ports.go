package fleet

import (
	"errors"
	"fmt"
	"net"

	"github.com/goverse/goverse/internal/port"
)

// Ports are drawn from a block that no other fleet draws from, of this process or
// another: nobody may have taken one when its node starts again.
const (
	firstPort, lastPort = 10000, 20000
	blockSize           = 2000
	drawings            = 200
)

// block is a range of ports. Its first one is listened at to show that it is taken.
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
