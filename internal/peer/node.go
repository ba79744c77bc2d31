package peer

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state/format/formatheader"
	"github.com/goverse/goverse/internal/wait"
	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// Errors about the life cycle of a node; package node describes them.
var (
	ErrStarted  = errors.New("the node was already started")
	ErrStopped  = errors.New("the node was stopped")
	ErrCallsCut = errors.New("running calls were cut off")
)

// A Node is the gRPC server of one process. Package node describes the methods that users see. All methods are safe
// for concurrent use.
type Node struct {
	log        hclog.Logger
	instanceID string
	advertise  string
	bound      net.Addr
	listen     func() (net.Listener, error) // at Start; nil: the listener listens already
	listener   *connListener
	server     *grpc.Server
	health     *health.Server

	stopping     chan struct{} // closed by MarkStopping
	markStopping func()
	goodbye      chan struct{} // closed when Stop begins, before endStreams
	sayGoodbye   func()
	endStreams   chan struct{} // closed when Stop or Close begins
	closeStreams func()
	watcherLost  wait.Signal
	watchers     watchers
	streams      atomic.Uint64 // number of watch streams so far
	roster       atomic.Pointer[Roster]
	armer        atomic.Pointer[heartbeat.Armer]
	key          ed25519.PrivateKey // proves that a watch comes from this node
	startDrain   func()             // starts grpc's graceful stop, once
	drained      chan struct{}      // closed when that stop ended, handlers included
	served       chan struct{}      // closed when Serve returned, or will never be called
	limits       connLimits

	mu       sync.Mutex
	started  bool
	stopped  bool
	serveErr error
}

// NewNode checks the configuration and registers the services that every node has.
func NewNode(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	field, address := cfg.listenField()
	_, key, _ := ed25519.GenerateKey(nil) // never fails, like Read
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listenError(field, address, err)
	}
	_, advertise := cfg.advertiseField()
	n := &Node{
		log:         logqueue.New(cfg.Logger),
		instanceID:  hex.EncodeToString(id[:]),
		advertise:   withPort(advertise, listener.Addr()),
		bound:       listener.Addr(),
		listener:    newConnListener(listener),
		health:      health.NewServer(),
		stopping:    make(chan struct{}),
		goodbye:     make(chan struct{}),
		endStreams:  make(chan struct{}),
		watcherLost: wait.NewSignal(),
		key:         key,
		drained:     make(chan struct{}),
		served:      make(chan struct{}),
		limits:      newConnLimits(),
	}
	if !hasPortZero(address) {
		_ = n.listener.Close()
		n.listen = func() (net.Listener, error) {
			listener, err := net.Listen("tcp", n.ListenAddress()) // numeric: it is resolved already
			if err != nil {
				return nil, listenError(field, address, err)
			}
			return listener, nil
		}
	}
	n.markStopping = sync.OnceFunc(func() {
		close(n.stopping)
		n.health.Shutdown() // permanently NOT_SERVING, even after SetReady
	})
	n.sayGoodbye = sync.OnceFunc(func() { close(n.goodbye) })
	n.closeStreams = sync.OnceFunc(func() { close(n.endStreams) })
	n.startDrain = sync.OnceFunc(func() {
		go func() {
			defer close(n.drained)
			// The listener is closed. If grpc is told to stop before its Serve has noticed that, Serve returns
			// only after the last call, and Done would wait for it.
			<-n.served
			// grpc waits five seconds for each connection's acknowledgement, which a watcher that stands still
			// does not send.
			patience := time.AfterFunc(goodbyePatience, n.listener.closeDeparted)
			defer patience.Stop()
			n.server.GracefulStop()
			n.watchers.wg.Wait()
		}()
	})
	n.server = grpc.NewServer(append([]grpc.ServerOption{
		// Members watch each other with keepalives much shorter than five minutes, the interval below which
		// grpc would otherwise close the connection as abuse.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(formatheader.CheckUnary),
		grpc.ChainStreamInterceptor(formatheader.CheckStream, n.limits.limitOwn, n.endWatches),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeader),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
	}, cfg.ServerOptions...)...)
	n.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	own := limitedRegistrar{n.server, n.limits}
	healthpb.RegisterHealthServer(own, n.health)
	reflection.Register(n.server) // it has streams only
	nodepb.RegisterNodeServer(own, identityService{node: n})
	return n, nil
}

// AdvertiseAddress returns the host:port under which other processes reach this node.
func (n *Node) AdvertiseAddress() string { return n.advertise }

// ListenAddress returns the IP address and port that the node binds, as reported by the kernel.
func (n *Node) ListenAddress() string { return n.bound.String() }

// InstanceID returns 128 random bits in hex, new for each Node.
func (n *Node) InstanceID() string { return n.instanceID }

// SetReady sets the answer of the health service for the whole server (service ""): SERVING or NOT_SERVING. It
// has no effect once the node is stopping.
func (n *Node) SetReady(ready bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		status = healthpb.HealthCheckResponse_SERVING
	}
	n.health.SetServingStatus("", status)
}

// Start listens and serves in a new goroutine, which Stop and Close join, and returns immediately.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.stopped:
		return errStopped()
	case n.started:
		return errStarted()
	}
	if n.listen != nil {
		listener, err := n.listen()
		if err != nil {
			return err
		}
		n.listener.Listener = listener
	}
	n.started = true
	go n.serve()
	n.log.Info("serving", "address", n.advertise, "listen", n.ListenAddress(), "instance", n.instanceID)
	return nil
}

func errStopped() error { return fmt.Errorf("node: %w: make a new one with NewNode", ErrStopped) }

func errStarted() error {
	return fmt.Errorf("node: %w: a cluster's Start starts its node itself, and one node is for one cluster", ErrStarted)
}

// serve runs until the listener is closed by Stop, or fails.
func (n *Node) serve() {
	defer close(n.served)
	err := n.server.Serve(n.listener)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil && !n.stopped {
		n.serveErr = fmt.Errorf("node: stopped serving at %s: %w", n.advertise, err)
		n.log.Error("stopped serving", "address", n.advertise, "error", err)
	}
}

// Done returns a channel that is closed when the node no longer serves.
func (n *Node) Done() <-chan struct{} { return n.served }

// Err returns the error because of which the node stopped serving by itself.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.serveErr
}
