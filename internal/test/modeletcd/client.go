package modeletcd

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Client returns an etcd client that uses the connection. It has no goroutines and need not be closed.
func (c *Conn) Client() *clientv3.Client {
	client := clientv3.NewCtxClient(context.Background())
	client.KV = clientv3.NewKVFromKVClient(keys{c: c}, nil)
	client.Lease = struct {
		clientv3.Lease
		leases // also for callers that open streams of renewals themselves
	}{clientv3.NewLeaseFromLeaseClient(leases{c: c}, nil, time.Second), leases{c: c}}
	client.Watcher = watcher{c}
	return client
}

// keys implements etcd's KV service.
type keys struct {
	pb.KVClient // methods that are not modelled
	c           *Conn
}

func (k keys) Range(ctx context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	return call(ctx, k.c, r, func() (*pb.RangeResponse, error) { return k.c.e.store.read(r) })
}

func (k keys) Put(ctx context.Context, r *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	resp, err := k.Txn(ctx,
		&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: r}}}}, opts...)
	if err != nil {
		return nil, err
	}
	return resp.Responses[0].GetResponsePut(), nil
}

func (k keys) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest,
	opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	resp, err := k.Txn(ctx,
		&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}}}}, opts...)
	if err != nil {
		return nil, err
	}
	return resp.Responses[0].GetResponseDeleteRange(), nil
}

func (k keys) Txn(ctx context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	return call(ctx, k.c, r, func() (*pb.TxnResponse, error) {
		if err := k.c.e.refusal(r); err != nil {
			return nil, err
		}
		resp, err := k.c.e.store.txn(r)
		if err != nil {
			return nil, err
		}
		return resp, k.c.e.afterwards(r)
	})
}

// leases implements etcd's lease service.
type leases struct {
	pb.LeaseClient // methods that are not modelled
	c              *Conn
}

func (l leases) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest,
	_ ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return call(ctx, l.c, r, func() (*pb.LeaseGrantResponse, error) { return l.c.e.grant(r) })
}

func (l leases) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest,
	_ ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return call(ctx, l.c, r, func() (*pb.LeaseRevokeResponse, error) { return l.c.e.revoke(r.ID) })
}

func (l leases) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest,
	_ ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	return call(ctx, l.c, r, func() (*pb.LeaseTimeToLiveResponse, error) { return l.c.e.timeToLive(r) })
}

func (l leases) LeaseKeepAlive(ctx context.Context,
	_ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse], error) {
	return &renewals{ctx: ctx, c: l.c, m: l.c.e.members[l.c.to()], sent: make(chan *pb.LeaseKeepAliveRequest, 100)}, nil
}

// renewals is a stream of renewals to one member, which answers them one after the other.
type renewals struct {
	grpc.ClientStream // methods that are not modelled
	ctx               context.Context
	c                 *Conn
	m                 *member
	sent              chan *pb.LeaseKeepAliveRequest
}

func (s *renewals) Send(r *pb.LeaseKeepAliveRequest) error {
	select {
	case s.sent <- r:
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *renewals) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case r := <-s.sent:
		return ask(s.ctx, s.c, s.m, r, func(answer func(*pb.LeaseKeepAliveResponse, error)) {
			s.c.e.keepAlive(s.m, r, answer)
		})
	case <-s.ctx.Done():
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *renewals) CloseSend() error { return nil }
