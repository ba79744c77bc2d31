package gateway

import (
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/objects/route"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// Routes are a cluster's, for who is no node of it.
type Routes interface {
	// Routes is who owns what now, nil while that is not known, and what is closed when it is another.
	Routes() (routes *objectspb.WatchRoutesResponse, changed <-chan struct{})
}

// WatchRoutes sends the routes, and sends them again when they have changed, until the stream ends or the gateway
// is closed.
func (g *Gateway) WatchRoutes(req *objectspb.WatchRoutesRequest, prefix string, routes Routes,
	stream grpc.ServerStreamingServer[objectspb.WatchRoutesResponse]) error {
	if p := req.GetPrefix(); p != "" && p != prefix {
		return otherCluster(prefix, p)
	}
	var sent *objectspb.WatchRoutesResponse
	for {
		now, changed := routes.Routes()
		if now != nil && !same(now, sent) {
			if err := stream.Send(now); err != nil {
				return err
			}
			sent = now
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-g.ctx.Done():
			return status.Error(codes.Unavailable, "objects: the node stops")
		}
	}
}

// Describe is what objects there are on this node.
func (g *Gateway) Describe(req *objectspb.DescribeRequest, prefix string) (*objectspb.DescribeResponse, error) {
	if p := req.GetPrefix(); p != "" && p != prefix {
		return nil, otherCluster(prefix, p)
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
	for _, a := range g.cfg.Host.Look(n, key) {
		out.Objects = append(out.Objects, &objectspb.DescribeResponse_Object{Service: a.Service, State: a.State,
			Epoch: a.Epoch, Waiting: int64(a.Waiting), Running: int64(a.Running), Age: int64(a.Age)})
	}
	return out, nil
}

func otherCluster(prefix, asked string) error {
	return status.Errorf(codes.FailedPrecondition, "objects: this node is of the cluster %q, not of %q", prefix, asked)
}

func same(a, b *objectspb.WatchRoutesResponse) bool {
	return b != nil && a.GetGeneration() == b.GetGeneration() && a.GetLeader() == b.GetLeader() &&
		slices.Equal(a.GetOwners(), b.GetOwners()) && slices.Equal(a.GetAddresses(), b.GetAddresses())
}
