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
		hostPort := address
		if scheme, rest, ok := strings.Cut(address, "://"); ok {
			if scheme != "http" && scheme != "https" {
				return fmt.Errorf("%w %q: the scheme is http or https", ErrBadAddress, address)
			}
			hostPort = strings.TrimSuffix(rest, "/")
		}
		host, port, err := net.SplitHostPort(hostPort)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > 65535 || host == "" ||
			strings.ContainsAny(host, " \t/") {
			return fmt.Errorf("%w %q: write host:port, as in localhost:2379, several with commas between",
				ErrBadAddress, address)
		}
	}
	return nil
}
