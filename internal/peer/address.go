package peer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
)

// Errors about addresses; package node describes them.
var (
	ErrBadAddress   = errors.New("bad address")
	ErrAddressInUse = errors.New("address already in use")
)

// badAddress returns the error for one address, with its field, its value, and the remedy.
func badAddress(field, address, problem string) error {
	if address == "" {
		return fmt.Errorf("node: %w: %s %s", ErrBadAddress, field, problem)
	}
	return fmt.Errorf("node: %w: %s %q %s", ErrBadAddress, field, address, problem)
}

// checkAddress accepts [host]:port with a numeric port; the host may be empty.
func checkAddress(field, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return badAddress(field, address, `is not host:port: write it like "localhost:47001" or "[::1]:47001"`)
	}
	// ParseUint accepts neither signs nor names. A named port may differ between machines, and two spellings of
	// one port would be two node names.
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || (len(port) > 1 && port[0] == '0') {
		return badAddress(field, address, "has no valid port: use a number from 0 to 65535")
	}
	if host != "" && !validHost(host) {
		return badAddress(field, address, "has no valid host: use a name of letters, digits, '-', '_' and '.', or an IP "+
			"address")
	}
	return nil
}

// validHost accepts IP addresses and host names. It is strict because the address becomes a key in etcd, a
// label of metrics and a part of log lines, where whitespace, control characters and slashes must not appear.
func validHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return strings.IndexFunc(ip.Zone(), notNameRune) < 0
	}
	if len(host) > 253 || strings.IndexFunc(host, notNameRune) >= 0 {
		return false
	}
	// A name that ends in a number, like 127.1 or 256.0.0.1, is a malformed IP address, which some resolvers
	// silently turn into a different one.
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, l := range labels {
		if l == "" {
			return false
		}
	}
	_, err := strconv.ParseUint(labels[len(labels)-1], 10, 64)
	return err != nil
}

// notNameRune reports whether a rune cannot be part of a host name.
func notNameRune(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return r != '-' && r != '_' && r != '.'
}

// checkReachable rejects hosts that mean the local machine everywhere. The address must have passed
// checkAddress.
func checkReachable(field, address string) error {
	host, _, _ := net.SplitHostPort(address)
	if host == "" {
		return badAddress(field, address, "has no host, so no node could reach this one: set AdvertiseAddress to this "+
			"machine's name and port")
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsUnspecified() {
		return badAddress(field, address, "means every interface, so no node could reach this one: set AdvertiseAddress "+
			"to this machine's name and port")
	}
	return nil
}

// listenError returns the error for an address that could not be bound, with the remedy.
func listenError(field, address string, cause error) error {
	if errors.Is(cause, syscall.EADDRINUSE) {
		return fmt.Errorf("node: %w: stop the process that uses %s (ss -tanp shows it) or set %s to another port; if none "+
			"listens there, a connection out of this machine had that port, and it is free within a minute (%w)",
			ErrAddressInUse, address, field, cause)
	}
	return fmt.Errorf("node: %w: cannot listen at %s: set %s to an address and a port that this machine may bind (%w)",
		ErrBadAddress, address, field, cause)
}

// hasPortZero reports whether the kernel chooses the port of an address.
func hasPortZero(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port == "0"
}

// withPort replaces port 0 of an address by the bound port.
func withPort(address string, bound net.Addr) string {
	host, port, err := net.SplitHostPort(address)
	if tcp, ok := bound.(*net.TCPAddr); ok && err == nil && port == "0" {
		return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
	}
	return address
}
