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

	"github.com/goverse/goverse/internal/state/format/formatheader"
)

// reconnectParams configures gRPC's reconnecting: soon at first, and within about a second to a node that has been
// away for a while.
var reconnectParams = grpc.ConnectParams{
	Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
		MaxDelay: time.Second},
	MinConnectTimeout: 2 * time.Second,
}

// allLanes has the bits of all lanes.
const allLanes = 1<<maxLanes - 1

// peer holds the connections and the present links to one address.
type peer struct {
	pool    *Pool
	address string
	conn    *grpc.ClientConn // for streams
	// wideConn is for the first few streams of this process's own; see wideStreams.
	wideConn *grpc.ClientConn
	// linkConn is for links alone. It has another window, and links do not compete with streams if the node
	// limits the streams of a connection.
	linkConn    *grpc.ClientConn
	streams     atomic.Int64                   // streams and unary calls on conn and wideConn
	wideOpen    atomic.Int64                   // on wideConn
	links       [maxLanes]atomic.Pointer[link] // only the first unless the node is far
	distance    atomic.Int64                   // the least time in which a link was opened; 0 if none was
	openedLanes atomic.Uint32                  // the bits of the lanes on which a link was ever opened
	allOpen     chan struct{}                  // closed when these are all lanes

	openMoreOnce sync.Once
	widenUntil   time.Time // calls wait for allOpen until then

	mu      sync.Mutex
	retired bool // opens no further links or streams
}

func newPeer(pool *Pool, address string) (*peer, error) {
	p := &peer{pool: pool, address: address, allOpen: make(chan struct{})}
	var err error
	if p.conn, err = p.newConn(streamWindow, grpc.WithChainStreamInterceptor(p.countStream),
		grpc.WithChainUnaryInterceptor(p.countCall)); err != nil {
		return nil, err
	}
	if p.wideConn, err = p.newConn(wideWindow, grpc.WithChainStreamInterceptor(p.countWide, p.countStream)); err != nil {
		_ = p.conn.Close()
		return nil, err
	}
	if p.linkConn, err = p.newConn(linkWindow); err != nil {
		_ = p.conn.Close()
		_ = p.wideConn.Close()
		return nil, err
	}
	return p, nil
}

// streamConn returns the connection for another stream of this process's own.
func (p *peer) streamConn() *grpc.ClientConn {
	if p.wideOpen.Load() < wideStreams {
		return p.wideConn
	}
	return p.conn
}

// newConn returns a connection, which is established at its first use.
func (p *peer) newConn(window int32, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	all := append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithConnectParams(reconnectParams), grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(connWindow)}, opts...)
	// The passthrough scheme leaves the address to the dialer, which resolves it.
	all = append(all, formatheader.DialOptions()...)
	return grpc.NewClient("passthrough:///"+p.address, append(all, p.pool.cfg.DialOptions...)...)
}

// closeConns closes the connections. A stream of wideConn may be on conn (see countWide); when it ends, wideConn shows
// why.
func (p *peer) closeConns() {
	_ = p.wideConn.Close() // it is closed only once
	_ = p.conn.Close()
	_ = p.linkConn.Close()
}

// errRetired is returned for a call or stream on a connection that is about to be closed. Nothing of it was
// sent.
var errRetired = status.Error(codes.Unavailable, "link: the connection is being closed: call again")

// beginStream counts a new stream. It returns false if the peer has retired.
func (p *peer) beginStream() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.retired {
		p.streams.Add(1)
	}
	return !p.retired
}

// countStream counts the open streams.
func (p *peer) countStream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !p.beginStream() {
		return nil, errRetired
	}
	return countOpen(&p.streams, func(opt grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(ctx, desc, conn, method, append(opts, opt)...)
	})
}

// countWide counts the open streams on wideConn. It opens a stream on conn if others have taken the room since
// streamConn.
func (p *peer) countWide(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if p.wideOpen.Add(1) > wideStreams {
		p.wideOpen.Add(-1)
		return p.conn.NewStream(ctx, desc, method, opts...)
	}
	return countOpen(&p.wideOpen, func(opt grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(ctx, desc, conn, method, append(opts, opt)...)
	})
}

// countOpen opens a stream that was counted in n, and subtracts it when it ends or fails to open.
func countOpen(n *atomic.Int64, open func(grpc.CallOption) (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	done := sync.OnceFunc(func() { n.Add(-1) })
	stream, err := open(grpc.OnFinish(func(error) { done() }))
	if err != nil {
		done()
	}
	return stream, err
}

// countCall counts the unary calls that are made on the connection itself.
func (p *peer) countCall(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !p.beginStream() {
		return errRetired
	}
	defer p.streams.Add(-1)
	return invoke(ctx, method, req, reply, conn, opts...)
}

// recordOpened records that the link of a lane was opened and how long that took. The first link takes longer because
// it also connects.
func (p *peer) recordOpened(lane int, took time.Duration) {
	bit := uint32(1) << lane
	if before := p.openedLanes.Or(bit); before != allLanes && before|bit == allLanes {
		close(p.allOpen)
	}
	for {
		least := p.distance.Load()
		if least != 0 && least <= int64(took) || p.distance.CompareAndSwap(least, int64(took)) {
			return
		}
	}
}

// isFar reports whether the round trip to the node takes so long that one link is not enough.
func (p *peer) isFar() bool { return p.distance.Load() >= int64(farFrom) }

// linkFor returns the link for a call of that many bytes. It opens the first link if there is none or it has
// ended. It returns nil if the peer has retired.
func (p *peer) linkFor(ctx context.Context, cost int64) *link {
	l := p.links[0].Load()
	switch {
	case l == nil || l.ended.Load():
		return p.openLink(0)
	case !p.isFar() || l.hasRoom(cost):
		return l
	}
	p.openMoreLinks(ctx)
	return p.leastBusy(l, cost)
}

// leastBusy returns the link for a call that would have to wait on the first link: an open link on which it
// need not wait, otherwise the one with the least load. It opens ended links again for later calls.
func (p *peer) leastBusy(best *link, cost int64) *link {
	for i := 1; i < maxLanes && cost-laneWindow <= p.laneShare(i); i++ {
		l := p.links[i].Load()
		switch {
		case l == nil || l.ended.Load():
			p.openLink(i)
		case !l.ready.Load():
		case l.hasRoom(cost):
			return l
		case l.load.Load() < best.load.Load():
			best = l
		}
	}
	return best
}

// openMoreLinks opens the further links when they are first needed. It blocks until all are open, but no longer than
// they usually take, because calls that are queued on the first link meanwhile would stay there. That also
// shows how many links the node allows.
func (p *peer) openMoreLinks(ctx context.Context) {
	p.openMoreOnce.Do(func() {
		p.widenUntil = time.Now().Add(2 * time.Duration(p.distance.Load()))
		for i := 1; i < maxLanes; i++ {
			p.openLink(i)
		}
	})
	if p.openedLanes.Load() == allLanes {
		return
	}
	left := time.Until(p.widenUntil)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-p.allOpen:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// laneShare returns the number of bytes that may be in flight on a link. A longer call passes alone on the first
// link.
func (p *peer) laneShare(lane int) int64 {
	most := p.pool.cfg.maxInFlight
	switch {
	case !p.isFar():
		return most
	case lane < wideLanes:
		return most / 2 / wideLanes
	}
	return most / 2 / (maxLanes - wideLanes)
}

// hasRoom reports whether a call of that many bytes need not wait for others.
func (l *link) hasRoom(cost int64) bool {
	load := l.load.Load()
	return load == 0 || load+cost <= laneWindow
}

// openLink opens a link if there is none or it has ended, and returns it. It returns nil if the peer has
// retired.
func (p *peer) openLink(i int) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return nil
	}
	if l := p.links[i].Load(); l != nil && !l.ended.Load() {
		return l
	}
	l := newLink(p)
	l.lane = i
	p.links[i].Store(l)
	p.pool.wg.Add(1)
	go l.run()
	return l
}

// retireIdle ends the links and prevents further ones, unless a call or stream is in flight. It reports whether this
// call did that.
func (p *peer) retireIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired || p.streams.Load() > 0 {
		return false
	}
	for i := range p.links {
		if l := p.links[i].Load(); l != nil && !l.endIdle() {
			return false // ended links are opened again
		}
	}
	p.retired = true
	return true
}

// close ends all links because of cause, and closes the connections.
func (p *peer) close(cause error) {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	for i := range p.links {
		if l := p.links[i].Load(); l != nil {
			l.failCalls(cause, -1)
		}
	}
	p.closeConns()
}
