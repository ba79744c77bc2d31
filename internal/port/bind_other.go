//go:build !unix

package port

import "net"

func bind(addr *net.TCPAddr) error { return listen(addr) }
