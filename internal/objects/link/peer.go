package link

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// reconnect is how gRPC connects again: soon at first, and to a node that comes back after a while within about a
// second.
var reconnect = grpc.ConnectParams{
	Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
		MaxDelay: time.Second},
	MinConnectTimeout: 2 * time.Second,
}

// peer is one address: its connections, and its link at present.
type peer struct {
	pool    *Pool
	address string
	conn    *grpc.ClientConn // for streams
	// linkConn is the link's alone, which has another window, and does not compete with streams where the node limits
	// how many a connection may have.
	linkConn *grpc.ClientConn
	streams  atomic.Int64 // on conn
	link     atomic.Pointer[link]

	mu      sync.Mutex
	retired bool // no link is opened any more, and no stream begun
}

func newPeer(pool *Pool, address string) (*peer, error) {
	p := &peer{pool: pool, address: address}
	var err error
	if p.conn, err = p.connect(streamWindow, grpc.WithChainStreamInterceptor(p.countStream),
		grpc.WithChainUnaryInterceptor(p.countCall)); err != nil {
		return nil, err
	}
	if p.linkConn, err = p.connect(linkWindow); err != nil {
		_ = p.conn.Close()
		return nil, err
	}
	return p, nil
}

// connect makes a connection, which is established when it is first used.
func (p *peer) connect(window int32, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	all := append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithConnectParams(reconnect), grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(connWindow)}, opts...)
	// passthrough: the dialer gets the address as it is, and resolves it itself.
	return grpc.NewClient("passthrough:///"+p.address, append(all, p.pool.cfg.DialOptions...)...)
}

// disconnect closes the connections.
func (p *peer) disconnect() {
	_ = p.conn.Close() // it is closed once
	_ = p.linkConn.Close()
}

// errRetired refuses what is begun on a connection that is about to be closed: nothing was sent.
var errRetired = status.Error(codes.Unavailable, "link: the connection is being closed: call again")

// borrow counts a stream that begins, unless the peer has retired.
func (p *peer) borrow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.retired {
		p.streams.Add(1)
	}
	return !p.retired
}

// countStream counts the streams that are open.
func (p *peer) countStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !p.borrow() {
		return nil, errRetired
	}
	done := sync.OnceFunc(func() { p.streams.Add(-1) })
	stream, err := streamer(ctx, desc, conn, method, append(opts, grpc.OnFinish(func(error) { done() }))...)
	if err != nil {
		done()
	}
	return stream, err
}

// countCall counts the unary calls that are made on the connection itself.
func (p *peer) countCall(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !p.borrow() {
		return errRetired
	}
	defer p.streams.Add(-1)
	return invoke(ctx, method, req, reply, conn, opts...)
}

// current is the link, opened anew if there is none or it has ended; nil where the peer has retired.
func (p *peer) current() *link {
	if l := p.link.Load(); l != nil && !l.dead.Load() {
		return l
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return nil
	}
	if l := p.link.Load(); l != nil && !l.dead.Load() {
		return l
	}
	l := newLink(p)
	p.link.Store(l)
	p.pool.wg.Add(1)
	go l.run()
	return l
}

// retire ends the link, unless a call or stream is under way, and has no further one opened. It reports whether it
// did: to the first that asks.
func (p *peer) retire() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired || p.streams.Load() > 0 {
		return false
	}
	if l := p.link.Load(); l != nil && !l.endIdle() {
		return false
	}
	p.retired = true
	return true
}

// close ends all, because of cause.
func (p *peer) close(cause error) {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	if l := p.link.Load(); l != nil {
		l.fail(cause, -1)
	}
	p.disconnect()
}
