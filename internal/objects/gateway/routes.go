package gateway

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Routes provides the shard map and the leader for processes outside the cluster.
type Routes interface {
	// Routes returns the present routes, or nil while they are unknown, and a channel that is closed when they
	// change.
	Routes() (routes *objectspb.WatchRoutesResponse, changed <-chan struct{})
}

// Bounds of the interval between heartbeats.
const (
	minHeartbeat = 500 * time.Millisecond
	maxHeartbeat = time.Minute
)

// heartbeatOf returns the longest interval without a message to a caller; 0 means that only changes are sent.
func heartbeatOf(req *objectspb.WatchRoutesRequest) time.Duration {
	if req.GetHeartbeat() <= 0 {
		return 0
	}
	return min(max(time.Duration(req.GetHeartbeat()), minHeartbeat), maxHeartbeat)
}

// WatchRoutes sends the routes, and sends them again whenever they change. It blocks until the stream ends, the
// gateway is closed, or the routes may be out of date. A caller may request heartbeats in between; their
// absence shows that this process stands still.
func (g *Gateway) WatchRoutes(req *objectspb.WatchRoutesRequest, prefix string, routes Routes,
	stream grpc.ServerStreamingServer[objectspb.WatchRoutesResponse]) error {
	if p := req.GetPrefix(); p != "" && p != prefix {
		return otherClusterError(prefix, p)
	}
	heartbeat := heartbeatOf(req)
	var beat <-chan time.Time
	if heartbeat > 0 {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		beat = ticker.C
	}
	var sent *objectspb.WatchRoutesResponse
	current := g.cfg.Current()
	for {
		now, changed := routes.Routes()
		if current.Err() != nil {
			return status.Errorf(codes.Unavailable, "objects: no routes from here: %v: ask another node",
				context.Cause(current))
		}
		if now != nil && !sameRoutes(now, sent) {
			if err := stream.Send(withHeartbeat(now, heartbeat)); err != nil {
				return err
			}
			sent = now
		}
		select {
		case <-changed:
		case <-beat:
			if sent == nil {
				continue // there are no routes to confirm yet
			}
			if err := stream.Send(&objectspb.WatchRoutesResponse{Unchanged: true, Heartbeat: int64(heartbeat)}); err != nil {
				return err
			}
		case <-current.Done():
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-g.ctx.Done():
			return status.Error(codes.Unavailable, "objects: the node stops")
		}
	}
}

// withHeartbeat returns the routes for a caller that receives heartbeats.
func withHeartbeat(m *objectspb.WatchRoutesResponse, heartbeat time.Duration) *objectspb.WatchRoutesResponse {
	if heartbeat == 0 {
		return m
	}
	return &objectspb.WatchRoutesResponse{Prefix: m.GetPrefix(), Generation: m.GetGeneration(),
		Addresses: m.GetAddresses(), Owners: m.GetOwners(), Leader: m.GetLeader(), Nodes: m.GetNodes(),
		Heartbeat: int64(heartbeat)}
}

// Describe returns the registered services and the objects of a key on this node.
func (g *Gateway) Describe(req *objectspb.DescribeRequest, prefix string) (*objectspb.DescribeResponse, error) {
	if p := req.GetPrefix(); p != "" && p != prefix {
		return nil, otherClusterError(prefix, p)
	}
	out := &objectspb.DescribeResponse{}
	for _, s := range g.cfg.Services.Stats() {
		one := &objectspb.DescribeResponse_Service{Name: s.Name, Active: s.Active, Waiting: s.Waiting}
		for _, m := range s.Methods {
			for _, n := range m.Calls {
				one.Calls += n
			}
		}
		out.Services = append(out.Services, one)
	}
	if len(req.GetKey()) == 0 || g.cfg.Host == nil {
		return out, nil
	}
	key := string(req.GetKey())
	if err := route.CheckKey(key); err != nil {
		return nil, err
	}
	n, known := g.cfg.Map.Shard(key)
	if !known {
		return out, nil
	}
	for _, a := range g.cfg.Host.DescribeObjects(n, key) {
		out.Objects = append(out.Objects, &objectspb.DescribeResponse_Object{Service: a.Service, State: a.State,
			Epoch: a.Epoch, Waiting: int64(a.Waiting), Running: int64(a.Running), Age: int64(a.Age)})
	}
	return out, nil
}

func otherClusterError(prefix, asked string) error {
	return status.Errorf(codes.FailedPrecondition, "objects: this node is of the cluster %q, not of %q", prefix, asked)
}

func sameRoutes(a, b *objectspb.WatchRoutesResponse) bool {
	return b != nil && a.GetGeneration() == b.GetGeneration() && a.GetLeader() == b.GetLeader() &&
		slices.Equal(a.GetOwners(), b.GetOwners()) && slices.Equal(a.GetAddresses(), b.GetAddresses()) &&
		slices.EqualFunc(a.GetNodes(), b.GetNodes(), func(a, b *objectspb.WatchRoutesResponse_Node) bool {
			return a.GetAddress() == b.GetAddress() && a.GetIncarnation() == b.GetIncarnation()
		})
}
