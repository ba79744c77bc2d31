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
	client.KV = clientv3.NewKVFromKVClient(kvService{c: c}, nil)
	client.Lease = struct {
		clientv3.Lease
		leaseService // also for callers that open streams of renewals themselves
	}{clientv3.NewLeaseFromLeaseClient(leaseService{c: c}, nil, time.Second), leaseService{c: c}}
	client.Watcher = watcher{c}
	return client
}

// kvService implements etcd's KV service.
type kvService struct {
	pb.KVClient // methods that are not modelled
	c           *Conn
}

func (k kvService) Range(ctx context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	return askMajority(ctx, k.c, r, func() (*pb.RangeResponse, error) { return k.c.etcd.store.readRange(r) })
}

func (k kvService) Put(ctx context.Context, r *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	resp, err := k.Txn(ctx,
		&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: r}}}}, opts...)
	if err != nil {
		return nil, err
	}
	return resp.Responses[0].GetResponsePut(), nil
}

func (k kvService) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest,
	opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	resp, err := k.Txn(ctx,
		&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}}}}, opts...)
	if err != nil {
		return nil, err
	}
	return resp.Responses[0].GetResponseDeleteRange(), nil
}

func (k kvService) Txn(ctx context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	return askMajority(ctx, k.c, r, func() (*pb.TxnResponse, error) {
		if err := k.c.etcd.refusalError(r); err != nil {
			return nil, err
		}
		resp, err := k.c.etcd.store.executeTxn(r)
		if err != nil {
			return nil, err
		}
		return resp, k.c.etcd.answerError(r)
	})
}

// leaseService implements etcd's lease service.
type leaseService struct {
	pb.LeaseClient // methods that are not modelled
	c              *Conn
}

func (l leaseService) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest,
	_ ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return askMajority(ctx, l.c, r, func() (*pb.LeaseGrantResponse, error) { return l.c.etcd.grant(r) })
}

func (l leaseService) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest,
	_ ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return askMajority(ctx, l.c, r, func() (*pb.LeaseRevokeResponse, error) { return l.c.etcd.revoke(r.ID) })
}

func (l leaseService) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest,
	_ ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	return askMajority(ctx, l.c, r, func() (*pb.LeaseTimeToLiveResponse, error) { return l.c.etcd.timeToLive(r) })
}

func (l leaseService) LeaseKeepAlive(ctx context.Context,
	_ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse], error) {
	return &renewalStream{ctx: ctx, c: l.c, m: l.c.etcd.members[l.c.nextMember()],
		sent: make(chan *pb.LeaseKeepAliveRequest, 100)}, nil
}

// renewalStream is a stream of renewals to one member, which answers them one after the other.
type renewalStream struct {
	grpc.ClientStream // methods that are not modelled
	ctx               context.Context
	c                 *Conn
	m                 *member
	sent              chan *pb.LeaseKeepAliveRequest
}

func (s *renewalStream) Send(r *pb.LeaseKeepAliveRequest) error {
	select {
	case s.sent <- r:
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *renewalStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case r := <-s.sent:
		return askMember(s.ctx, s.c, s.m, r, func(answer func(*pb.LeaseKeepAliveResponse, error)) {
			s.c.etcd.keepAlive(s.m, r, answer)
		})
	case <-s.ctx.Done():
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *renewalStream) CloseSend() error { return nil }
