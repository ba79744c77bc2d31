package connect

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ErrBadAddress is returned for a malformed address of etcd.
var ErrBadAddress = errors.New("bad EtcdAddress")

// CheckAddresses checks the syntax of a list of etcd addresses.
func CheckAddresses(addresses string) error {
	for address := range strings.SplitSeq(addresses, ",") {
		address = strings.TrimSpace(address)
		rest, ok := splitAddress(address)
		if !ok {
			return fmt.Errorf("%w %q: the scheme is http or https", ErrBadAddress, address)
		}
		host, port, err := net.SplitHostPort(rest)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > 65535 || host == "" ||
			strings.ContainsAny(host, " \t/") {
			return fmt.Errorf("%w %q: write host:port, as in localhost:2379, several with commas between",
				ErrBadAddress, address)
		}
	}
	return nil
}

// splitAddress returns an address without its scheme. ok reports whether that is one of etcd's, or missing.
func splitAddress(address string) (hostPort string, ok bool) {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return address, true
	}
	return strings.TrimSuffix(rest, "/"), scheme == "http" || scheme == "https"
}
