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
)

// Client calls the objects of one cluster. All methods are safe for concurrent use.
type Client struct {
	table  *table
	pool   *link.Pool
	router *route.Router
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	over   atomic.Bool

	mu sync.Mutex // guards additions to wg against Close
	wg sync.WaitGroup

	closing sync.Once
}

// Dial makes a client. It blocks until a node has reported the cluster's routes, so calls can be made at once; until
// every one of Config.Addresses answers that it will not serve this client; or until ctx ends, so give ctx a deadline.
// Addresses that cannot be reached, and nodes that have no routes yet, are asked again until then. The client does not
// depend on ctx afterwards, and is to be closed.
//
// Errors are one line that says of each address why it did not answer. They match ErrBadConfig; ErrOtherCluster, if
// a node is of another cluster than Config.Prefix; and the error and cause of ctx, if that has ended. The gRPC
// statuses of the answers are in their chain.
func Dial(ctx context.Context, cfg Config) (*Client, error) { return dial(ctx, cfg, usual) }

func dial(ctx context.Context, cfg Config, t timing) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Client{table: newTable(t.stall)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	w := newWatcher(cfg, t, c.table)
	c.wg.Go(func() { w.run(c.ctx) })
	if err := w.first(ctx); err != nil {
		c.Close()
		return nil, w.explain(err)
	}
	if err := c.open(cfg); err != nil {
		c.Close()
		return nil, fmt.Errorf("client: %w", err)
	}
	return c, nil
}

// open makes what calls need, once it is known which cluster it is.
func (c *Client) open(cfg Config) error {
	idempotent := make(map[string]bool, len(cfg.Idempotent))
	for _, m := range cfg.Idempotent {
		idempotent[m] = true
	}
	present := func(address string) bool { return c.table.current.Load().present(address) }
	c.pool = link.NewPool(link.Config{Prefix: c.table.current.Load().prefix, MaxMessage: cfg.MaxMessage, Present: present,
		DialOptions: append([]grpc.DialOption{grpc.WithKeepaliveParams(ping)}, cfg.DialOptions...), Logger: cfg.Logger})
	c.wg.Go(c.sweep)
	c.wg.Go(c.drop)
	var err error
	c.router, err = route.New(route.Config{Map: c.table, Pool: c.pool, Prefix: c.table.current.Load().prefix,
		Idempotent: idempotent, CallTimeout: cfg.CallTimeout, Unary: interceptor.UnaryClient(cfg.UnaryInterceptors),
		Stream: interceptor.StreamClient(cfg.StreamInterceptors), Logger: cfg.Logger})
	return err
}

// ping finds connections whose other side is silent. Nodes accept pings as often as that.
var ping = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}

// dialOptions are those of the connections on which routes are watched.
func dialOptions(cfg Config) []grpc.DialOption {
	return append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(ping), grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig,
			MinConnectTimeout: 2 * time.Second})}, cfg.DialOptions...)
}

// sweepEvery is how often connections are closed that are not needed any more.
const sweepEvery = 10 * time.Second

// sweep closes connections to nodes that own no shards any more, until the client is closed. They stay for a while,
// for the calls that were about to use them.
func (c *Client) sweep() {
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

// drop closes the connections to processes that are gone, until the client is closed: one that stands still answers
// nothing, and keeps its connections.
func (c *Client) drop() {
	before := c.table.current.Load()
	for {
		select {
		case <-before.replaced:
		case <-c.ctx.Done():
			return
		}
		now := c.table.current.Load()
		c.pool.DropAll(func(address string) bool { return now.gone(address, before) })
		before = now
	}
}

// Close ends the client, and returns when its goroutines have ended. Calls under way fail, with UNAVAILABLE; of
// those that wait for an owner, objects.NotStarted then says so. Later calls fail with an error that is UNAVAILABLE
// and matches ErrClosed. Connections made with Resolver stay where they are. It may be called again.
func (c *Client) Close() {
	c.closing.Do(func() {
		c.over.Store(true)
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
}

// At is the connection to the objects with that key, one of each service, for a generated client:
//
//	counterpb.NewCounterClient(c.At("alice"))
//
// It takes no connection of its own and need not be closed; it can be kept for as long as the client. Keys have 1 to
// objects.MaxKey bytes. A call goes to the node that owns the key's shard, directly; while the shard moves, or has no
// owner, or its owner cannot be reached, the call waits, until its deadline, or Config.CallTimeout where it has none.
// A stream without a deadline stays open for as long as it likes; CallTimeout is then for its opening alone.
//
// Errors are gRPC statuses, those of package objects where they do not come from the method: objects.NotStarted says
// whether the call had certainly no effect. Calls that were certainly not started are sent anew within their deadline,
// unseen; those that may have run, because the node or the connection was lost, only where Config.Idempotent names
// their method, else they fail with UNAVAILABLE and objects.ReasonMayHaveStarted. A node that refuses the client, for
// its certificate or because it is of another cluster now, is UNAVAILABLE, too. Calls of a client that was closed match
// ErrClosed.
//
// Calls may be made concurrently, and are independent of each other. The outgoing metadata of ctx goes along. Of the
// call options, those about headers, trailers and the call's end have an effect; credentials of single calls are
// refused with UNIMPLEMENTED where the call is unary.
func (c *Client) At(key string) grpc.ClientConnInterface { return &objectConn{c, key} }

// objectConn implements grpc.ClientConnInterface.
type objectConn struct {
	c   *Client
	key string
}

// Invoke implements grpc.ClientConnInterface.
func (o *objectConn) Invoke(ctx context.Context, method string, request, response any,
	opts ...grpc.CallOption) error {
	if o.c.over.Load() {
		return closedError{}
	}
	return o.c.router.Invoke(ctx, o.key, method, request, response, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (o *objectConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if o.c.over.Load() {
		return nil, closedError{}
	}
	return o.c.router.NewStream(ctx, o.key, desc, method, opts...)
}
