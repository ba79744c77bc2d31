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

// port is a port that is ours from reserve to release, whether we listen at it or
// not: a socket is bound to it that nobody listens on. The kernel refuses connections
// to such a port, and refuses it to others. Only a socket that asks to share it may
// listen there beside it, and that is ours.
type port struct {
	address string
	holder  int // a file descriptor
}

// reserve takes a port, a free one for port 0.
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
	if err := set(fd, unix.SO_REUSEADDR, 1); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	// That was needed to bind beside what is left of old connections. From now on it
	// would let anybody in who sets it too, as nearly everybody does; and the other
	// option, set only now, lets in our listener.
	if err := errors.Join(set(fd, unix.SO_REUSEADDR, 0), set(fd, unix.SO_REUSEPORT, 1)); err != nil {
		return nil, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	bound := netip.AddrPortFrom(at.Addr(), uint16(name.(*unix.SockaddrInet4).Port))
	return &port{address: bound.String(), holder: fd}, nil
}

func set(fd, option, value int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, value))
}

// listen listens at the port.
func (p *port) listen() (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		cerr := raw.Control(func(fd uintptr) { err = set(int(fd), unix.SO_REUSEPORT, 1) })
		return errors.Join(cerr, err)
	}}
	return config.Listen(context.Background(), "tcp4", p.address)
}

// release gives the port to others.
func (p *port) release() { _ = unix.Close(p.holder) } // nothing was written
