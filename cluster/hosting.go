package cluster

import (
	"context"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/gateway"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/interceptor"
	"github.com/goverse/goverse/internal/objects/link"
	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/internal/peer/budget"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// objectParts holds a node's part in the objects.
type objectParts struct {
	services    *host.Services
	host        *host.Host // nil with sharding off
	pool        *link.Pool
	router      *route.Router
	gateway     *gateway.Gateway
	links       *link.Server
	routes      *shardRoutes
	viewMonitor *viewMonitor
	budget      *budget.Budget
}

// managerSettings configures this node's part in the election and in the shards, which have h as their residents.
func (c *Cluster) managerSettings(h *objectParts) consensusmanager.Settings {
	s := c.cfg.managerSettings(c.log)
	s.Residents = func(shards *consensusmanager.Shards) consensusmanager.Residents {
		h.host = c.newHost(shards, h.services)
		return h.host
	}
	return s
}

// newHost returns the host of the objects in this node's shards. It runs nothing before the first call.
func (c *Cluster) newHost(shards host.Shards, services *host.Services) *host.Host {
	cfg := c.cfg.Objects
	return host.New(host.Config{Shards: shards, At: c.Objects().At,
		Unary: interceptor.UnaryServer(cfg.UnaryInterceptors), Stream: interceptor.StreamServer(cfg.StreamInterceptors),
		IdleAfter: cfg.IdleAfter, MaxActive: cfg.MaxActive, MaxQueue: cfg.MaxQueue, MaxWaiting: cfg.MaxWaiting,
		MaxMessage: cfg.MaxMessage, ActivationTimeout: cfg.ActivationTimeout,
		DrainTimeout: c.cfg.Sharding.DrainTimeout, Logger: c.log.Named("objects")}, services)
}

// completeObjects creates the parts that call objects and let calls in.
func (c *Cluster) completeObjects(p *nodeParts) (err error) {
	cfg, log, h := c.cfg.Objects, c.log.Named("objects"), p.objects
	h.routes, h.budget = newRoutes(c, p.Mirror), budget.New(cfg.MaxWaitingBytes)
	h.viewMonitor = newViewMonitor(ttlOf(c.cfg), p.sessionValid, p.Mirror.CompleteAsOf)
	h.pool = link.NewPool(link.Config{Prefix: c.cfg.EtcdPrefix, DialOptions: c.cfg.DialOptions,
		MaxMessage: cfg.MaxMessage, Present: h.routes.hasMember, Logger: log})
	self := ""
	if h.host != nil {
		self = c.node.AdvertiseAddress()
	}
	h.router, err = route.New(route.Config{Map: h.routes, Pool: h.pool, Prefix: c.cfg.EtcdPrefix, Host: h.host, Self: self,
		Services: h.services, Current: h.viewMonitor.currentContext,
		CallTimeout: cfg.CallTimeout, Unary: interceptor.UnaryClient(cfg.UnaryClientInterceptors),
		Stream: interceptor.StreamClient(cfg.StreamClientInterceptors)})
	if err != nil {
		return err
	}
	h.gateway = gateway.New(gateway.Config{Router: h.router, Map: h.routes, Services: h.services, Host: h.host, Self: self,
		Prefix: c.cfg.EtcdPrefix, Current: h.viewMonitor.currentContext, Budget: h.budget})
	h.links = link.NewServer(link.ServerConfig{Prefix: c.cfg.EtcdPrefix, Handler: h.gateway, MaxMessage: cfg.MaxMessage,
		Budget: h.budget})
	return nil
}

// stats returns figures about all of it.
func (h *objectParts) stats() objects.Stats {
	f, waits := h.router.Counters(), h.budget.Usage()
	st := objects.Stats{Services: h.services.Stats(), Local: f.Local.Load(), Remote: f.Remote.Load(),
		Retried: f.Retried.Load(), Lost: f.Lost.Load(),
		WaitingBytes: waits.Used, MaxWaitingBytes: waits.Limit, RefusedForBytes: waits.Refused}
	if h.host != nil {
		st.Running = h.host.RunningTurns()
	}
	return st
}

// markStopping makes deactivations from now on count as caused by the node's stop.
func (h *objectParts) markStopping() {
	if h.host != nil {
		h.host.MarkStopping()
	}
}

// closeIncoming accepts no further calls, and waits until those of other nodes have ended or ctx ends. It is
// called when this node has no shard any more. Calls that wait for the owner of their shard fail, because they
// could wait for long.
func (h *objectParts) closeIncoming(ctx context.Context) error {
	h.router.StopWaits()
	h.gateway.Close()
	return h.links.Close(ctx)
}

// close closes the remaining parts. At that point this node holds no shard and no caller is left.
func (h *objectParts) close() {
	h.pool.Close()
	if h.host != nil {
		h.host.Close()
	}
	h.router.Close()
}

// objectsServer is the gRPC service for other nodes and for clients outside of the cluster.
type objectsServer struct {
	objectspb.UnimplementedObjectsServer
	c *Cluster
}

// Link implements objectspb.ObjectsServer.
func (s *objectsServer) Link(stream grpc.BidiStreamingServer[objectspb.LinkRequest, objectspb.LinkResponse]) error {
	p, err := s.c.runningParts()
	if err != nil {
		return &notRunningError{err}
	}
	return p.objects.links.Link(stream)
}

// WatchRoutes implements objectspb.ObjectsServer.
func (s *objectsServer) WatchRoutes(req *objectspb.WatchRoutesRequest,
	stream grpc.ServerStreamingServer[objectspb.WatchRoutesResponse]) error {
	p, err := s.c.runningParts()
	if err != nil {
		return &notRunningError{err}
	}
	return p.objects.gateway.WatchRoutes(req, s.c.cfg.EtcdPrefix, p.objects.routes, stream)
}

// Describe implements objectspb.ObjectsServer.
func (s *objectsServer) Describe(ctx context.Context, req *objectspb.DescribeRequest) (*objectspb.DescribeResponse,
	error) {
	p, err := s.c.runningParts()
	if err != nil {
		return nil, &notRunningError{err}
	}
	resp, err := p.objects.gateway.Describe(req, s.c.cfg.EtcdPrefix)
	if err == nil && req.GetFigures() {
		resp.Figures, err = s.c.describeFigures(ctx, p, req)
	}
	return resp, err
}
