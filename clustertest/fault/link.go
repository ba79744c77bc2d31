package fault

import (
	"context"
	"net"
	"sync"
	"time"
)

// link is one client's connection and the one to the target that belongs to it.
type link struct {
	relay  *Relay
	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	client *net.TCPConn

	mu     sync.Mutex
	target *net.TCPConn // nil until it is connected
	gone   Direction    // where nobody is any more
}

func newLink(ctx context.Context, r *Relay, client *net.TCPConn) *link {
	l := &link{relay: r, client: client}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// run relays until both directions have ended.
func (l *link) run() {
	defer l.close()
	// The beginning of a connection is the first thing to be delivered.
	if _, ok := l.pass(ToTarget, time.Now(), 0); !ok {
		return
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(l.ctx, "tcp", l.relay.target)
	if err != nil {
		if _, ok := l.pass(FromTarget, time.Now(), 0); ok {
			l.reset(Both) // as near to a refusal as one can come after accepting
		}
		return
	}
	target := conn.(*net.TCPConn)
	if !l.connected(target) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.stream(ToTarget, l.client, target) })
	wg.Go(func() { l.stream(FromTarget, target, l.client) })
	wg.Wait()
}

// connected takes the connection to the target in, or closes it if it is too late.
func (l *link) connected(target *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone == Both {
		abort(target)
		return false
	}
	l.target = target
	return true
}

// pass waits until some of the bytes that wait may be delivered, and returns how
// many; false when the link was closed.
func (l *link) pass(d Direction, arrived time.Time, waiting int) (n int, ok bool) {
	for {
		n, wait, changed := l.relay.admit(d, arrived, waiting)
		if wait == 0 {
			return n, l.ctx.Err() == nil
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-l.ctx.Done():
			return 0, false
		}
	}
}

// reset sends a RST to the ends in direction d, and closes a link whose ends are both
// gone. One that is not connected to the target yet has no ends to tell apart.
func (l *link) reset(d Direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.target == nil {
		d = Both
	}
	l.gone |= d
	if d&FromTarget != 0 {
		abort(l.client)
	}
	if d&ToTarget != 0 && l.target != nil {
		abort(l.target)
	}
	if l.gone == Both {
		l.cancel()
	}
}

// close closes both ends, which ends run.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = Both
	l.cancel()
	_ = l.client.Close() // it may be closed already, here and below
	if l.target != nil {
		_ = l.target.Close()
	}
}

// abort closes a connection with a RST. What it still had to send is lost.
func abort(c *net.TCPConn) {
	_ = c.SetLinger(0) // it may be closed already, here and below
	_ = c.Close()
}
