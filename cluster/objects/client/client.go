package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/goverse/goverse/internal/objects/interceptor"
	"github.com/goverse/goverse/internal/objects/link"
	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/internal/state/format/formatheader"
)

// Client calls the objects of one cluster. All methods are safe for concurrent use.
type Client struct {
	table  *routeTable
	pool   *link.Pool
	router *route.Router
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	closed atomic.Bool

	mu sync.Mutex // makes additions to wg exclude Close
	wg sync.WaitGroup

	closeOnce sync.Once
}

// Dial returns a client of a cluster. It blocks until a node has reported the cluster's routes, until every one
// of Config.Addresses has refused to serve this client, or until ctx ends. Give ctx a deadline: addresses that
// cannot be reached, and nodes that have no routes yet, are tried again until then. Calls can be made as soon
// as Dial returns. The client does not depend on ctx afterwards. Close it when it is no longer needed.
//
// Errors are one line that explains, for each address, why it did not answer. They match ErrBadConfig;
// ErrOtherCluster if a node belongs to another cluster than Config.Prefix names; and the error and cause of ctx
// if it has ended. Their chain contains the gRPC statuses of the answers.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	return dialWithTiming(ctx, cfg, defaultTiming)
}

func dialWithTiming(ctx context.Context, cfg Config, t watchTiming) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Client{table: newRouteTable(t.stall)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	w := newRouteWatcher(cfg, t, c.table)
	c.wg.Go(func() { w.run(c.ctx) })
	if err := w.awaitFirst(ctx); err != nil {
		c.Close()
		return nil, w.explainDial(err)
	}
	if err := c.openPool(cfg); err != nil {
		c.Close()
		return nil, fmt.Errorf("client: %w", err)
	}
	return c, nil
}

// openPool creates the router and the pool of connections, once the cluster's prefix is known.
func (c *Client) openPool(cfg Config) error {
	idempotent := make(map[string]bool, len(cfg.Idempotent))
	for _, m := range cfg.Idempotent {
		idempotent[m] = true
	}
	present := func(address string) bool { return c.table.current.Load().mayHaveProcess(address) }
	c.pool = link.NewPool(link.Config{Prefix: c.table.current.Load().prefix, MaxMessage: cfg.MaxMessage, Present: present,
		DialOptions: append([]grpc.DialOption{grpc.WithKeepaliveParams(keepaliveParams)}, cfg.DialOptions...),
		Logger:      cfg.Logger})
	c.wg.Go(c.closeUnused)
	c.wg.Go(c.closeGone)
	var err error
	c.router, err = route.New(route.Config{Map: c.table, Pool: c.pool, Prefix: c.table.current.Load().prefix,
		Idempotent: idempotent, CallTimeout: cfg.CallTimeout, Unary: interceptor.UnaryClient(cfg.UnaryInterceptors),
		Stream: interceptor.StreamClient(cfg.StreamInterceptors)})
	return err
}

// keepaliveParams finds connections with a silent other end. Nodes accept pings at this rate.
var keepaliveParams = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}

// dialOptions returns the options of the connections on which routes are watched.
func dialOptions(cfg Config) []grpc.DialOption {
	all := append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(keepaliveParams), grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig,
			MinConnectTimeout: 2 * time.Second})}, cfg.DialOptions...)
	return append(all, formatheader.DialOptions()...)
}

// sweepEvery is the interval at which unneeded connections are closed.
const sweepEvery = 10 * time.Second

// closeUnused closes connections to nodes that no longer own shards, until the client is closed. It keeps each for at
// least one more interval, for calls that were about to use it.
func (c *Client) closeUnused() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var former []string
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		now := c.table.current.Load().addresses
		c.pool.Keep(func(address string) bool {
			return slices.Contains(now, address) || slices.Contains(former, address)
		})
		former = now
	}
}

// closeGone closes the connections to processes that are gone, until the client is closed. A process that stands
// still answers nothing but keeps its connections.
func (c *Client) closeGone() {
	before := c.table.current.Load()
	for {
		select {
		case <-before.replaced:
		case <-c.ctx.Done():
			return
		}
		now := c.table.current.Load()
		c.pool.DropAll(func(address string) bool { return now.processGone(address, before) })
		before = now
	}
}

// Close closes the client and waits for its goroutines to end. Calls in flight fail with UNAVAILABLE; of these,
// objects.NotStarted reports the calls that were still waiting for an owner. Later calls fail with an
// UNAVAILABLE error that matches ErrClosed. Connections made with Resolver keep their address. Close may be
// called more than once. It always returns nil.
func (c *Client) Close() error {
	c.closeOnce.Do(func() {
		c.closed.Store(true)
		c.mu.Lock()
		c.cancel()
		close(c.table.closed)
		c.mu.Unlock()
		c.wg.Wait()
		if c.pool != nil {
			c.pool.Close()
		}
		if c.router != nil {
			c.router.Close()
		}
	})
	return nil
}

// At returns a connection to the objects with the given key, one of each service, for a generated client:
//
//	counterpb.NewCounterClient(c.At("alice"))
//
// The connection has no network connection of its own, need not be closed, and can be used as long as the
// client. A key has 1 to objects.MaxKey bytes. A call goes directly to the node that owns the key's shard.
// While the shard is moving, has no owner, or has an owner that cannot be reached, the call waits until its
// deadline, or for Config.CallTimeout if it has none. A stream without a deadline may stay open forever;
// CallTimeout limits only its opening.
//
// Errors are gRPC statuses: the method's own, or those of package objects. objects.NotStarted reports whether
// the call certainly had no effect. Calls that were certainly not started are repeated within their deadline
// without the caller noticing. Calls that may have run, because the node or the connection was lost, are
// repeated only if Config.Idempotent names their method; otherwise they fail with UNAVAILABLE and
// objects.ReasonMayHaveStarted. If a node refuses the client because of its certificate, or because the node
// now belongs to another cluster, the code is UNAVAILABLE as well. Calls of a closed client match ErrClosed.
//
// Calls may be made concurrently and are independent of each other. They carry the outgoing metadata of ctx. Of
// the call options, those for headers, trailers and the end of the call have an effect; the last one takes effect
// once, when the end of a stream was received or its context has ended. Unary calls with per-call credentials fail
// with UNIMPLEMENTED.
func (c *Client) At(key string) grpc.ClientConnInterface { return &objectConn{c, key} }

// objectConn implements grpc.ClientConnInterface.
type objectConn struct {
	c   *Client
	key string
}

// Invoke implements grpc.ClientConnInterface.
func (o *objectConn) Invoke(ctx context.Context, method string, request, response any,
	opts ...grpc.CallOption) error {
	if o.c.closed.Load() {
		return closedError{}
	}
	return o.c.router.Invoke(ctx, o.key, method, request, response, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (o *objectConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if o.c.closed.Load() {
		return nil, closedError{}
	}
	return o.c.router.NewStream(ctx, o.key, desc, method, opts...)
}
