//go:build unix && !solaris

package fault

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// port is a port that is reserved from reserve to release, whether the relay listens on it or not. A socket is
// bound to it but does not listen. The kernel then refuses connections to the port and refuses the port to
// other programs. Only a socket that asks to share the port can listen beside it, and the relay's listener does
// so.
type port struct {
	address string
	holder  int // a file descriptor
}

// reserve takes a port; port 0 stands for any free one.
func reserve(at netip.AddrPort) (_ *port, err error) {
	syscall.ForkLock.RLock() // a process started meanwhile must not inherit it
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if err := setOption(fd, unix.SO_REUSEADDR, 1); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	// SO_REUSEADDR was needed to bind despite the remains of old connections. From now on it would admit any
	// other socket that sets it, and most do. SO_REUSEPORT, set only now, admits the relay's own listener.
	if err := errors.Join(setOption(fd, unix.SO_REUSEADDR, 0), setOption(fd, unix.SO_REUSEPORT, 1)); err != nil {
		return nil, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	bound := netip.AddrPortFrom(at.Addr(), uint16(name.(*unix.SockaddrInet4).Port))
	return &port{address: bound.String(), holder: fd}, nil
}

func setOption(fd, option, value int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, value))
}

// listen listens on the port.
func (p *port) listen() (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		cerr := raw.Control(func(fd uintptr) { err = setOption(int(fd), unix.SO_REUSEPORT, 1) })
		return errors.Join(cerr, err)
	}}
	return config.Listen(context.Background(), "tcp4", p.address)
}

// release frees the port.
func (p *port) release() { _ = unix.Close(p.holder) } // nothing was written
