package node

import (
	"context"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/peer"
)

// Errors about addresses. Compare with errors.Is. The message names the field to change; the cause, if there is
// one, is wrapped.
var (
	// ErrBadAddress is returned when the address is malformed, cannot be advertised, or cannot be bound on this
	// machine.
	ErrBadAddress = peer.ErrBadAddress
	// ErrAddressInUse is returned when another socket is bound to the address.
	ErrAddressInUse = peer.ErrAddressInUse
)

// Errors about the life cycle of a node. Compare with errors.Is.
var (
	// ErrStarted is returned when Start was called before.
	ErrStarted = peer.ErrStarted
	// ErrStopped is returned when Stop or Close was called before. Create a new node instead.
	ErrStopped = peer.ErrStopped
	// ErrCallsCut is returned when Stop's context ended while calls were running. Their connections were closed
	// and their contexts cancelled.
	ErrCallsCut = peer.ErrCallsCut
)

// A Node is the gRPC server of one process. NewNode creates it. All methods are safe for concurrent use.
type Node peer.Node // so that only our own packages reach the methods that a cluster needs

// NewNode checks the configuration and registers the services that every node has. It checks that the address can be
// bound, but listens there only from Start on, so that a connection made before is refused instead of left waiting.
// Only a port 0 is bound at once, because the node's address depends on it. A node that is not started must be closed
// with Close. Errors match ErrBadAddress or ErrAddressInUse.
func NewNode(cfg Config) (*Node, error) {
	n, err := peer.NewNode(peer.Config(cfg))
	return (*Node)(n), err
}

// AdvertiseAddress returns the host:port under which other processes reach this node, with the port that was
// actually bound.
func (n *Node) AdvertiseAddress() string { return (*peer.Node)(n).AdvertiseAddress() }

// ListenAddress returns the IP address and port that the node binds, as reported by the kernel.
func (n *Node) ListenAddress() string { return (*peer.Node)(n).ListenAddress() }

// InstanceID returns 128 random bits in hex, new for each Node. It tells this process from an earlier one at
// the same address.
func (n *Node) InstanceID() string { return (*peer.Node)(n).InstanceID() }

// Server returns the registrar for the user's own gRPC services, for use before Start. It panics, like
// http.Handle, if a service is registered after Start or Stop, or twice. The services health, reflection and
// goverse.node.v1.Node are registered already. Without this check, gRPC would end the process.
func (n *Node) Server() grpc.ServiceRegistrar { return (*peer.Node)(n).Server() }

// Start listens and serves in a new goroutine, which Stop and Close join, and returns immediately. It returns
// ErrStarted the second time and ErrStopped after Stop. If another process has bound the port since NewNode, the error
// matches ErrAddressInUse, and Start may be called again.
func (n *Node) Start() error { return (*peer.Node)(n).Start() }

// Done returns a channel that is closed when the node no longer serves: after Stop or Close, or after a failure
// of its listener, which Err then returns.
func (n *Node) Done() <-chan struct{} { return (*peer.Node)(n).Done() }

// Err returns the error because of which the node stopped serving by itself. It returns nil while the node
// serves, and after Stop or Close.
func (n *Node) Err() error { return (*peer.Node)(n).Err() }

// Stopping returns a channel that is closed once the node's cluster begins to stop, or Stop or Close was called.
// Long streams of a user's own services should end then, because Stop waits for them.
func (n *Node) Stopping() <-chan struct{} { return (*peer.Node)(n).Stopping() }

// Stop stops the node gracefully. Watchers are sent a goodbye, health becomes NOT_SERVING, the port is freed,
// new calls are refused, and running calls may finish. Connections with an unfinished handshake are closed
// immediately.
//
// If ctx ends first, Stop closes all connections and cancels the contexts of running calls. The error then
// matches ErrCallsCut and the cause of ctx's end.
//
// Stop returns when every goroutine of the node has ended, except for a handler that ignores its cancelled
// context for a second. One goroutine of gRPC per connection, keepalive, cannot be joined; it ends by itself,
// because its connection is closed when Stop returns. Stop may be called at any time: before Start, again (it
// returns nil if everything has ended), and concurrently, where the context that ends first decides.
func (n *Node) Stop(ctx context.Context) error { return (*peer.Node)(n).Stop(ctx) }

// Close stops the node immediately, as the end of its process would: running calls are cut off, and watchers
// get no goodbye. It also frees the port of a node that was never started, and cuts short a Stop in progress.
// Like Stop it waits for the node's goroutines, at most a second for a handler that ignores its context. It always
// returns nil.
func (n *Node) Close() error { return (*peer.Node)(n).Close() }
