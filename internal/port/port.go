// Package port draws free ports and checks whether an address is free.
//
// Not promised: another program may take the port before the caller does.
package port

import "net"

// Probe returns nil if a TCP address is free to listen at, and otherwise the error of bind or of resolving the
// address. It does not listen there. A listener, however brief, may survive in a process that another goroutine
// is starting, between its fork and its exec, and a caller that relies on the result would find the address
// taken.
func Probe(address string) error {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	return bind(addr)
}

// listen probes an address by listening at it, where a bare bind is not available.
func listen(addr *net.TCPAddr) error {
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close() // nothing was accepted
}
