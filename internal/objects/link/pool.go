package link

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Config configures a Pool. The zero value suits a cluster without a prefix.
type Config struct {
	// Prefix is the cluster's prefix. Nodes of another cluster refuse the link.
	Prefix string
	// DialOptions are appended to the pool's own, so they take precedence. Pass grpc.WithTransportCredentials
	// here for TLS; without it, connections are plain text.
	DialOptions []grpc.DialOption
	// MaxMessage limits the bytes of a request or a response. A call with a longer one fails with the status
	// RESOURCE_EXHAUSTED. Default 4 MiB.
	MaxMessage int
	// Present reports whether there may be a process at an address. The pool connects only if there may.
	// Present must return false before Drop is called for the address. By default there may be one at every
	// address.
	Present func(address string) bool
	// Logger receives one line per lost link. Default: none.
	Logger hclog.Logger
	// maxInFlight limits the approximate number of bytes of calls in flight on one link. Further calls wait, in
	// order, until some have ended. A longer call passes alone. The links to a distant node share the limit.
	// Default 36 MiB.
	maxInFlight int64
}

// withDefaults returns the configuration with defaults for the unset fields.
func (c Config) withDefaults() Config {
	if c.maxInFlight <= 0 {
		c.maxInFlight = defaultMaxInFlight
	}
	if c.MaxMessage <= 0 {
		c.MaxMessage = defaultMaxMessage
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Pool is the caller's side of links. It has one link to an address, opened at its first use and again after it
// broke, and further ones to a distant node under load. Its methods may be called from any goroutine.
type Pool struct {
	cfg    Config
	ctx    context.Context // ends with the pool
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines of all links

	mu     sync.RWMutex
	peers  map[string]*peer
	closed bool
}

// NewPool returns a Pool. It connects to no node before its first use.
func NewPool(cfg Config) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{cfg: cfg.withDefaults(), ctx: ctx, cancel: cancel, peers: map[string]*peer{}}
}

// CallBy sends call to the node at address and waits for its reply. It does not interpret the reply's Status and
// Moved. It sets the call's Id, More and Timeout. The call must not be changed or used elsewhere before CallBy returns.
// A call is sent at most once.
//
// The deadline is that of ctx, otherwise the parameter, which costs less than a context with a deadline. A zero
// deadline means none.
//
// Errors match
//
//   - ErrNotSent, ErrRefused, ErrLost or ErrClosed;
//   - the error of ctx if ctx ends first; also ErrNotSent if nothing of the call was sent by then. Otherwise the node
//     is notified, possibly too late;
//   - in all other cases a gRPC status: RESOURCE_EXHAUSTED if the call or its response is too long, INVALID_ARGUMENT
//     if the call has no method or a name in it is not valid UTF-8.
func (p *Pool) CallBy(ctx context.Context, deadline time.Time, address string,
	call *objectspb.Call) (*objectspb.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w (address %s: %w)", ErrNotSent, address, err)
	}
	extra := extraOfCall(call)
	cost := int64(len(call.Request) + extra + callOverhead)
	if err := p.checkCall(call, extra); err != nil {
		return nil, err
	}
	for {
		peer, err := p.peer(address)
		if err != nil {
			return nil, err
		}
		if l := peer.linkFor(ctx, cost); l != nil {
			l.load.Add(cost)
			reply, err := l.doCall(ctx, deadline, call, extra, cost)
			l.load.Add(-cost)
			if err != errGone {
				return reply, err
			}
		}
	}
}

// checkCall returns an error if a call cannot be sent.
func (p *Pool) checkCall(call *objectspb.Call, extra int) error {
	switch {
	case len(call.Request) > p.cfg.MaxMessage:
		return status.Errorf(codes.ResourceExhausted, "link: the request has %d bytes and may have %d: send less, or raise "+
			"MaxMessage on both sides", len(call.Request), p.cfg.MaxMessage)
	case extra > maxExtra:
		return status.Errorf(codes.ResourceExhausted, "link: key and metadata of the call have %d bytes and may have %d: "+
			"send less", extra, maxExtra)
	case call.Method == "":
		return status.Error(codes.InvalidArgument, "link: the call has no method")
	case !utf8.ValidString(call.Method) || !validNames(call.Metadata):
		return status.Error(codes.InvalidArgument, "link: the method, or a name in the metadata, is not valid UTF-8")
	}
	return nil
}

// Conn returns the connection to the address for a stream that is forwarded for a caller from outside. Its
// window is small, because the caller may leave any number of streams unread. The connection must not be closed
// by the caller: Keep, Drop and Close close it. The error matches ErrClosed, or reports that the dial options
// do not fit together.
func (p *Pool) Conn(address string) (*grpc.ClientConn, error) {
	peer, err := p.peer(address)
	if err != nil {
		return nil, err
	}
	return peer.conn, nil
}

// OwnConn is like Conn, for a stream of this process's own. The first few streams to an address have a large
// window.
func (p *Pool) OwnConn(address string) (*grpc.ClientConn, error) {
	peer, err := p.peer(address)
	if err != nil {
		return nil, err
	}
	return peer.streamConn(), nil
}

// peer returns the peer of the address, and creates it at its first use.
func (p *Pool) peer(address string) (*peer, error) {
	p.mu.RLock()
	found, closed := p.peers[address], p.closed
	p.mu.RUnlock()
	switch {
	case closed:
		return nil, ErrClosed
	case found != nil:
		return found, nil
	}
	made, err := p.makePeer(address)
	if err == nil && p.cfg.Present != nil && !p.cfg.Present(address) {
		// Present is called after the peer was added, so a Drop that follows finds the peer.
		p.Drop(address)
		return nil, fmt.Errorf("%w (address %s: %w)", ErrNotSent, address, errDropped)
	}
	return made, err
}

// makePeer returns the peer of an address, and creates it if there is none.
func (p *Pool) makePeer(address string) (*peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if found := p.peers[address]; found != nil {
		return found, nil
	}
	made, err := newPeer(p, address)
	if err != nil {
		return nil, fmt.Errorf("%w: no connection to %s can be made (%w)", ErrNotSent, address, err)
	}
	p.peers[address] = made
	return made, nil
}

// Keep closes the links and connections to all addresses for which keep returns false, except those with a call
// or stream in flight; call Keep again for these. It does not block. It calls keep without holding a lock. A
// stream that is begun on a connection from Conn after that was closed fails with UNAVAILABLE before anything
// is sent.
func (p *Pool) Keep(keep func(address string) bool) {
	p.mu.RLock()
	var candidates []*peer
	for _, peer := range p.peers {
		candidates = append(candidates, peer)
	}
	p.mu.RUnlock()
	for _, peer := range candidates {
		if keep(peer.address) || !peer.retireIdle() {
			continue
		}
		p.mu.Lock()
		if p.peers[peer.address] == peer {
			delete(p.peers, peer.address)
		}
		p.mu.Unlock()
		peer.closeConns()
	}
}

// Close ends all links, closes all connections, and blocks until the pool's goroutines have ended. Calls in
// flight fail with ErrClosed. It may be called again.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	peers := p.peers
	p.peers = map[string]*peer{}
	p.mu.Unlock()
	for _, peer := range peers {
		peer.close(ErrClosed)
	}
	p.cancel()
	p.wg.Wait()
}
