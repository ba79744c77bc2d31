package fault

import (
	"context"
	"net"
	"sync"
	"time"
)

// link is a client's connection together with its connection to the target.
type link struct {
	relay  *Relay
	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	client *net.TCPConn

	mu     sync.Mutex
	target *net.TCPConn // nil until it is connected
	gone   Direction    // ends that were closed: ToTarget is the target, FromTarget the client
}

func newLink(ctx context.Context, r *Relay, client *net.TCPConn) *link {
	l := &link{relay: r, client: client}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// run relays until both directions have ended.
func (l *link) run() {
	defer l.close()
	// The start of a connection is the first thing to deliver.
	if _, ok := l.awaitDelivery(ToTarget, time.Now(), 0); !ok {
		return
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(l.ctx, "tcp", l.relay.target)
	if err != nil {
		if _, ok := l.awaitDelivery(FromTarget, time.Now(), 0); ok {
			l.resetEnds(Both) // a client that was accepted cannot be refused any more
		}
		return
	}
	target := conn.(*net.TCPConn)
	if !l.setTarget(target) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.carryDirection(ToTarget, l.client, target) })
	wg.Go(func() { l.carryDirection(FromTarget, target, l.client) })
	wg.Wait()
}

// setTarget records the connection to the target, or closes it if the link was closed meanwhile.
func (l *link) setTarget(target *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone == Both {
		resetConn(target)
		return false
	}
	l.target = target
	return true
}

// awaitDelivery blocks until some of the waiting bytes may be delivered, and returns their number. ok is false if the
// link was closed.
func (l *link) awaitDelivery(d Direction, arrived time.Time, waiting int) (n int, ok bool) {
	for {
		n, wait, changed := l.relay.admitBytes(d, arrived, waiting)
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

// resetEnds sends a RST to the ends in direction d, and closes the link once both ends are gone. A link that is not
// connected to the target yet is closed as a whole.
func (l *link) resetEnds(d Direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.target == nil {
		d = Both
	}
	l.gone |= d
	if d&FromTarget != 0 {
		resetConn(l.client)
	}
	if d&ToTarget != 0 && l.target != nil {
		resetConn(l.target)
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

// resetConn closes a connection with a RST. Unsent data is lost.
func resetConn(c *net.TCPConn) {
	_ = c.SetLinger(0) // it may be closed already, here and below
	_ = c.Close()
}
