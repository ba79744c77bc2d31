// Package port draws free ports, and says whether an address is free.
//
// Not promised: that it still is a moment later. Another program may be faster.
package port

import "net"

// Probe reports whether a TCP address could be listened at: the error is that of bind, or of
// what the address names. Nothing is listened at for that. A listener, however briefly it is
// there, may live on in a process that another goroutine starts at that moment, until that gets
// from fork to exec; and a caller that relies on it would find it taken.
func Probe(address string) error {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	return bind(addr)
}

// listen is bind where there is nothing better.
func listen(addr *net.TCPAddr) error {
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close() // nothing was accepted
}
