package peer

import (
	"context"
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/wait"
)

// goodbyePatience is the time that a watcher has to acknowledge a goodbye.
const goodbyePatience = 200 * time.Millisecond

// drainMoment is the time that draining takes if no call is running.
const drainMoment = 20 * time.Millisecond

// MarkStopping announces that this node is about to stop: Identify reports it, health becomes NOT_SERVING
// permanently, and the channel Stopping is closed. Calls are still served. A node that must hand over duties
// calls it before doing so. Stop and Close imply it. It does not block and may be called any number of times.
func (n *Node) MarkStopping() { n.markStopping() }

// Stopping returns a channel that is closed once MarkStopping, Stop or Close was called.
func (n *Node) Stopping() <-chan struct{} { return n.stopping }

// Stop stops the node gracefully.
func (n *Node) Stop(ctx context.Context) error {
	n.sayGoodbye()
	n.shutListener()
	n.startDrain()
	select {
	case <-n.drained:
		<-n.served
		return nil
	case <-ctx.Done():
	}
	// A node without running calls drains within a moment. If ctx ended before the call, that must not count as
	// cut off.
	if wait.Join(n.drained, drainMoment) {
		<-n.served
		return nil
	}
	if cut := n.cutCalls(); !cut {
		return nil
	}
	return fmt.Errorf("node: stop of %s: %w: give Stop more time, or end long calls when Stopping is closed (%w)",
		n.advertise, ErrCallsCut, context.Cause(ctx))
}

// Close stops the node immediately.
func (n *Node) Close() error {
	n.shutListener()
	n.startDrain()
	n.cutCalls()
	return nil
}

// shutListener marks the node stopped and frees the port.
func (n *Node) shutListener() {
	n.MarkStopping()
	n.mu.Lock()
	first := !n.stopped
	n.stopped = true
	never := !n.started
	n.mu.Unlock()
	n.closeStreams()
	if !first {
		return
	}
	n.log.Debug("stopping", "address", n.advertise) // the caller logs the stop
	_ = n.listener.Close()                          // grpc closes it too, and then gets an error
	n.listener.closeConns(false)
	if never {
		close(n.served)
	}
}

// cutCalls closes all connections and waits for the calls on them. It reports whether a call was still running.
func (n *Node) cutCalls() bool {
	select {
	case <-n.drained:
		<-n.served
		return false
	default:
	}
	n.listener.closeConns(true) // otherwise grpc waits for unfinished handshakes
	n.server.Stop()
	<-n.served
	if !wait.Join(n.drained, wait.JoinLimit) {
		n.log.Error("a call ignores its cancelled context and was left behind", "address", n.advertise)
	}
	return true
}
