package pgnode

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/internal/backoff"
	"github.com/goverse/goverse/internal/wait"
)

// nodesChannel is the channel on which changes of the nodes are notified. It only hints: any user of the database can
// notify.
const nodesChannel = "goverse_nodes"

const (
	// lockTimeout limits the wait of one request for a row that another program has locked. A request of a caller and one
	// that records a change fit between two refreshes, whatever the deadline of the session.
	lockTimeout = "'500ms'"
	// leaveLockTimeout is that of a node that leaves, which has nothing else to do.
	leaveLockTimeout = "'2s'"
)

// reconnect are the pauses before another attempt to connect.
var reconnect = backoff.Policy{First: 20 * time.Millisecond, Last: time.Second}

// connect returns the node's connection, which listens, and opens it if there is none.
func (n *Node) connect(ctx context.Context) (*pgx.Conn, error) {
	if n.conn != nil && !n.conn.IsClosed() {
		return n.conn, nil
	}
	n.conn = nil
	conn, err := n.keeper.Connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, n.keeper.RequestTimeout())
	defer cancel()
	_, err = conn.Exec(ctx, "SET lock_timeout = "+lockTimeout+"; LISTEN "+nodesChannel+"; LISTEN "+eventsChannel,
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		closeConn(conn)
		return nil, err
	}
	n.conn = conn
	n.connected.Add(1)
	return conn, nil
}

// closeConn closes a connection; it may have broken.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// awaitConn waits before another attempt to connect.
func (n *Node) awaitConn(ctx context.Context) {
	n.failures++
	wait.For(ctx, reconnect.Delay(n.failures, rand.Float64()))
}

// waker ends the waits of one goroutine.
type waker struct {
	mu    sync.Mutex
	awake bool
	end   context.CancelFunc // of the present wait
}

// wake ends the present wait, or the next one.
func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awake = true
	if w.end != nil {
		w.end()
	}
}

// sleep returns a context that ends after d, with ctx, and when the goroutine is woken.
func (w *waker) sleep(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awake {
		cancel()
	}
	w.end, w.awake = cancel, false
	return ctx, func() {
		w.mu.Lock()
		w.end = nil
		w.mu.Unlock()
		cancel()
	}
}

// job is a request of a caller on the node's connection.
type job struct {
	do   func(ctx context.Context, db Querier) error
	done chan error // has room for the result
}

// do runs f on the node's connection, between its own requests, and blocks until it has ended, or ctx ends. A request
// that was begun goes on then, so that its connection is not cut.
func (n *Node) do(ctx context.Context, f func(ctx context.Context, db Querier) error) error {
	j := &job{f, make(chan error, 1)}
	n.mu.Lock()
	if n.stopped {
		n.mu.Unlock()
		return ErrStopped
	}
	n.jobs = append(n.jobs, j)
	n.mu.Unlock()
	n.waker.wake()
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, other := range n.jobs {
		if other == j {
			n.jobs = append(n.jobs[:i:i], n.jobs[i+1:]...)
			break
		}
	}
	return errors.Join(context.Cause(ctx), n.lastErr)
}

// runJobs runs the requests of callers until a refresh is due, and one at least: each may wait for a locked row. Those
// that are left have their turn after the refresh.
func (n *Node) runJobs(ctx context.Context, conn *pgx.Conn) {
	for first := true; ctx.Err() == nil && !conn.IsClosed(); first = false {
		n.mu.Lock()
		if len(n.jobs) == 0 {
			n.mu.Unlock()
			return
		}
		if !first && n.refreshDue(time.Now()) <= 0 {
			n.mu.Unlock()
			n.waker.wake() // there is no rest
			return
		}
		j := n.jobs[0]
		n.jobs = n.jobs[1:]
		n.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, n.keeper.RequestTimeout())
		j.done <- j.do(limited, conn)
		cancel()
	}
}

// stopJobs refuses the requests of callers from now on.
func (n *Node) stopJobs() {
	n.mu.Lock()
	n.stopped = true
	jobs := n.jobs
	n.jobs = nil
	n.mu.Unlock()
	for _, j := range jobs {
		j.done <- ErrStopped
	}
}
