package renewal

import (
	"context"
	"io"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// scripted is a server of streams that follows a test's script.
type scripted struct {
	clientv3.Lease
	open   func(ctx context.Context, n int) error // called for the n-th stream; nil: opens at once
	answer func(stream, request int, id int64) (*pb.LeaseKeepAliveResponse, error)

	mu      sync.Mutex
	streams int
}

func (s *scripted) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

func (s *scripted) Close() error { return nil }

func (s *scripted) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	s.mu.Lock()
	s.streams++
	n := s.streams
	s.mu.Unlock()
	if s.open != nil {
		if err := s.open(ctx, n); err != nil {
			return nil, err
		}
	}
	return &scriptedStream{s: s, ctx: ctx, n: n, requests: make(chan int64, 100)}, nil
}

// KeepAliveOnce is a renewal on a stream of its own.
func (s *scripted) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	stream, err := s.LeaseKeepAlive(ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
	resp, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return &clientv3.LeaseKeepAliveResponse{ResponseHeader: resp.Header, ID: clientv3.LeaseID(resp.ID), TTL: resp.TTL}, nil
}

type scriptedStream struct {
	grpc.ClientStream
	s        *scripted
	ctx      context.Context
	n, taken int
	requests chan int64
}

func (x *scriptedStream) Send(r *pb.LeaseKeepAliveRequest) error {
	x.requests <- r.ID
	return nil
}

// Recv answers the requests one after the other, as etcd does. If there is neither an answer nor an error, it
// stalls.
func (x *scriptedStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case id := <-x.requests:
		x.taken++
		resp, err := x.s.answer(x.n, x.taken, id)
		if resp == nil && err == nil {
			<-x.ctx.Done()
			return nil, x.ctx.Err()
		}
		return resp, err
	case <-x.ctx.Done():
		return nil, x.ctx.Err()
	}
}

func (x *scriptedStream) CloseSend() error { return io.EOF }

// renewer returns a Renewer over the script, which is closed with the test.
func (s *scripted) renewer(t *testing.T) *Renewer {
	return s.renewerOf(t, clientv3.NewCtxClient(context.Background()))
}

// renewerOf returns such a Renewer for a client, which is unused so far.
func (s *scripted) renewerOf(t *testing.T, client *clientv3.Client) *Renewer {
	client.Lease = s
	r, release := Acquire(client)
	t.Cleanup(release)
	return r
}

// yes renews any lease.
func yes(_, _ int, id int64) (*pb.LeaseKeepAliveResponse, error) {
	return &pb.LeaseKeepAliveResponse{ID: id, TTL: 10}, nil
}
