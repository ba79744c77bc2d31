//go:build unix

package port

import (
	"net"
	"os"
	"syscall"
)

// bind fails if a program listens at addr. It does not disturb other programs, because listeners set
// SO_REUSEADDR, as Go does.
func bind(addr *net.TCPAddr) error {
	v4, v6 := addr.IP.To4(), addr.IP.To16()
	if v6 == nil || v4 == nil && addr.Zone != "" {
		return listen(addr) // all addresses of the machine or of an interface
	}
	family := syscall.AF_INET
	if v4 == nil {
		family = syscall.AF_INET6
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	var at syscall.Sockaddr
	if v4 != nil {
		at = &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(v4)}
	} else {
		at = &syscall.SockaddrInet6{Port: addr.Port, Addr: [16]byte(v6)}
	}
	return os.NewSyscallError("bind", syscall.Bind(fd, at))
}
