package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/goverse/goverse/internal/port"
)

const (
	// portPatience is the time that a port must stay taken before it counts as taken: a server of this process
	// that has just stopped may need a moment to free it.
	portPatience = 250 * time.Millisecond
	portInterval = 10 * time.Millisecond
)

// choosePort returns address, with a free port in place of port 0, after checking that the port can be bound.
// Another program may still take it first; the caller then tries again.
func choosePort(ctx context.Context, field, address string) (string, error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return "", badConfig("%s is %q: use host:port", field, address)
	}
	if number == "0" {
		drawn, err := port.Servers.Draw(host)
		return drawn, listenError(field, drawn, err)
	}
	patience := time.NewTimer(portPatience)
	defer patience.Stop()
	again := time.NewTicker(portInterval)
	defer again.Stop()
	for {
		if err = port.Probe(address); !errors.Is(err, syscall.EADDRINUSE) {
			return address, listenError(field, address, err)
		}
		select {
		case <-again.C:
		case <-patience.C:
			return "", listenError(field, address, err)
		case <-ctx.Done():
			return "", listenError(field, address, err)
		}
	}
}

// listenError returns the error for a failed attempt to bind, with a remedy. It returns nil if cause is nil.
func listenError(field, address string, cause error) error {
	switch {
	case cause == nil:
		return nil
	case errors.Is(cause, syscall.EADDRINUSE):
		return fmt.Errorf("embedetcd: %w: stop the process that uses %s (ss -tanp shows it) or set %s to another port (%w)",
			ErrAddressInUse, address, field, cause)
	default:
		return fmt.Errorf("embedetcd: %w: cannot listen at %s: set %s to an address and a port that this machine may bind "+
			"(%w)", ErrConfig, address, field, cause)
	}
}

// reachableAddress returns the address at which this machine reaches a listener.
func reachableAddress(address string) string {
	host, port, _ := net.SplitHostPort(address)
	if host == "" {
		host = "127.0.0.1"
	} else if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() && !ip.Is4In6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}
