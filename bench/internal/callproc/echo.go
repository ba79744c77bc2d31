package callproc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/test/probepb"
)

// Echo is the called service, both as an object and as an ordinary gRPC service.
type Echo struct {
	probepb.UnimplementedProbeServer
	node string
	sum  int64
}

// Add adds to a number and returns the sum. It is not safe for concurrent use.
func (e *Echo) Add(_ context.Context, req *probepb.AddRequest) (*probepb.AddResponse, error) {
	e.sum += req.GetAmount()
	return &probepb.AddResponse{Sum: e.sum}, nil
}

// Echo returns the request.
func (e *Echo) Echo(_ context.Context, req *probepb.Blob) (*probepb.Blob, error) { return req, nil }

// Do returns the node's address.
func (e *Echo) Do(context.Context, *probepb.DoRequest) (*probepb.DoResponse, error) {
	return &probepb.DoResponse{Said: e.node}, nil
}

// Download sends the requested number of blobs.
func (e *Echo) Download(req *probepb.DownloadRequest, stream grpc.ServerStreamingServer[probepb.Blob]) error {
	blob := &probepb.Blob{Data: make([]byte, req.GetBytes())}
	for range req.GetBlobs() {
		if err := stream.Send(blob); err != nil {
			return err
		}
	}
	return nil
}

// Chat returns each blob that it receives.
func (e *Echo) Chat(stream grpc.BidiStreamingServer[probepb.Blob, probepb.Blob]) error {
	for {
		blob, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = stream.Send(blob)
		}
		if err != nil {
			return err
		}
	}
}
