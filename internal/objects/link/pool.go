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

// Config is what a Pool needs. The zero value will do where the cluster has no prefix.
type Config struct {
	// Prefix is that of the cluster. Nodes of another one refuse the link.
	Prefix string
	// DialOptions are added to the pool's own, after them, so they win: give grpc.WithTransportCredentials here for
	// TLS. Without, connections are plain text.
	DialOptions []grpc.DialOption
	// MaxInFlight is how many bytes of calls are in flight on one link, about; further ones wait, in order, until
	// some have ended. A call that is longer passes when it is alone. The links to a node that is far share it. Default
	// 36 MiB.
	MaxInFlight int64
	// MaxMessage is how many bytes a request or a response may have; a call with a longer one fails with
	// the status RESOURCE_EXHAUSTED. Default 4 MiB.
	MaxMessage int
	// Present reports whether a process may be at an address; no connection is made where none may. It reports that
	// before Drop is called for the address. Default: there may be one at each.
	Present func(address string) bool
	// Logger gets one line per link that was lost. Default: none.
	Logger hclog.Logger
}

// WithDefaults is the configuration with what was left out.
func (c Config) WithDefaults() Config {
	if c.MaxInFlight <= 0 {
		c.MaxInFlight = defaultMaxInFlight
	}
	if c.MaxMessage <= 0 {
		c.MaxMessage = defaultMaxMessage
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Pool is the caller's side of links: one to an address, opened when it is first used and again after it broke, and
// more to one that is far, when much is on its way. Its methods may be called from any goroutine.
type Pool struct {
	cfg    Config
	ctx    context.Context // ends with the pool
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines of all links

	mu     sync.RWMutex
	peers  map[string]*peer
	closed bool
}

// NewPool returns a pool. It connects to nothing before it is used.
func NewPool(cfg Config) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{cfg: cfg.WithDefaults(), ctx: ctx, cancel: cancel, peers: map[string]*peer{}}
}

// Call sends call to the node at address and waits for its reply, at whose Status and Moved it does not look. It
// sets the call's Id, More and Timeout, this from the deadline of ctx; the call must not be altered, and may be
// used for nothing else, before Call returns. A call is sent once at most. Errors match
//
//   - ErrNotSent, ErrRefused, ErrLost or ErrClosed;
//   - the error of ctx when that ends first; together with ErrNotSent if nothing of the call was sent by then, else the
//     node is notified, which may be in vain;
//   - otherwise they are a gRPC status: RESOURCE_EXHAUSTED where the call or its response is too long,
//     INVALID_ARGUMENT where the call has no method or a name in it is not valid UTF-8.
func (p *Pool) Call(ctx context.Context, address string, call *objectspb.Call) (*objectspb.Reply, error) {
	return p.CallBy(ctx, time.Time{}, address, call)
}

// CallBy is Call with a deadline for calls whose ctx has none, unless it is zero. It takes less than a context would.
func (p *Pool) CallBy(ctx context.Context, deadline time.Time, address string,
	call *objectspb.Call) (*objectspb.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w (address %s: %w)", ErrNotSent, address, err)
	}
	extra := extraOfCall(call)
	cost := int64(len(call.Request) + extra + callOverhead)
	if err := p.check(call, extra); err != nil {
		return nil, err
	}
	for {
		peer, err := p.peer(address)
		if err != nil {
			return nil, err
		}
		if l := peer.current(ctx, cost); l != nil {
			l.load.Add(cost)
			reply, err := l.call(ctx, deadline, call, extra, cost)
			l.load.Add(-cost)
			if err != errGone {
				return reply, err
			}
		}
	}
}

// check reports why a call cannot be sent.
func (p *Pool) check(call *objectspb.Call, extra int) error {
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

// Conn returns the connection to the address for a stream that is forwarded for a caller from outside: its window is
// small, because the caller may leave any number of streams unread. Keep, Drop and Close close the connection; nothing
// else may. The error matches ErrClosed, or reports that the dial options do not fit together.
func (p *Pool) Conn(address string) (*grpc.ClientConn, error) {
	peer, err := p.peer(address)
	if err != nil {
		return nil, err
	}
	return peer.conn, nil
}

// OwnConn is Conn for a stream of this process's own. The first few streams to an address have a large window.
func (p *Pool) OwnConn(address string) (*grpc.ClientConn, error) {
	peer, err := p.peer(address)
	if err != nil {
		return nil, err
	}
	return peer.streamConn(), nil
}

// peer is that of the address; it is made at its first use.
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
		// Asked only now: a Drop that follows finds the peer.
		p.Drop(address)
		return nil, fmt.Errorf("%w (address %s: %w)", ErrNotSent, address, errDropped)
	}
	return made, err
}

// makePeer makes the peer of an address, unless there is one.
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

// Keep closes the links and connections to all addresses for which keep returns false, except those on which a call
// or a stream is under way; call Keep again for these. It does not wait. keep is called without a lock. A stream
// that is begun on a connection from Conn after that was closed fails before anything is sent, with UNAVAILABLE.
func (p *Pool) Keep(keep func(address string) bool) {
	p.mu.RLock()
	var candidates []*peer
	for _, peer := range p.peers {
		candidates = append(candidates, peer)
	}
	p.mu.RUnlock()
	for _, peer := range candidates {
		if keep(peer.address) || !peer.retire() {
			continue
		}
		p.mu.Lock()
		if p.peers[peer.address] == peer {
			delete(p.peers, peer.address)
		}
		p.mu.Unlock()
		peer.disconnect()
	}
}

// Close ends all links, closes all connections, and returns when the pool's goroutines have ended. Calls under way
// fail with ErrClosed. It may be called again.
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
