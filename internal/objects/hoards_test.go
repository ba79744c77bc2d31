package objects_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// hoarder is one connection that asks for more than its share.
type hoarder struct {
	*hoarded
	conn    *grpc.ClientConn
	refused atomic.Int64 // refusals that it received
	failed  atomic.Int64 // other errors, before it gave up
}

// load describes the requests of a hoarder. Each of its goroutines returns with the reason for its end.
type load struct {
	times int
	open  func(ctx context.Context, h *hoarder, i int) error
	// half means that the requests suffice for at least half of the connection's share, and that the rest is
	// refused.
	half bool
}

var hoards = map[string]load{
	"unread streams of 100 kB": {1000, func(ctx context.Context, h *hoarder, i int) error {
		keys := h.away
		if i%4 == 0 {
			keys = h.here
		}
		return h.download(ctx, keys[i%16], 100_000)
	}, true},
	"unread streams of 1 kB, forwarded": {300, func(ctx context.Context, h *hoarder, i int) error {
		return h.download(ctx, h.away[i%16], 1000)
	}, false},
	"streams whose method does not read": {300, func(ctx context.Context, h *hoarder, i int) error {
		stream, err := probepb.NewProbeClient(h.at(i)).Upload(ctx)
		if err != nil {
			return err
		}
		for err == nil {
			err = stream.Send(&probepb.Blob{Data: large.Data[:32<<10]})
		}
		return stream.RecvMsg(&probepb.AddResponse{})
	}, false},
	"queued requests of 4 MiB": {300, func(ctx context.Context, h *hoarder, i int) error {
		return h.at(i).Invoke(ctx, probepb.Probe_Echo_FullMethodName, large, &probepb.Blob{}, grpc.ForceCodecV2(shared{}))
	}, true},
	"requests of which a part has come": {2000, func(ctx context.Context, h *hoarder, i int) error {
		stream, err := h.at(i).NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, probepb.Probe_Echo_FullMethodName,
			grpc.ForceCodecV2(shared{}))
		if err != nil {
			return err
		}
		if i < 32 { // it never completes, and blocks the bytes behind it
			<-ctx.Done()
			return ctx.Err()
		}
		_ = stream.SendMsg(large) // receiving returns the reason for a failure
		return stream.RecvMsg(&probepb.Blob{})
	}, false},
	"queued calls with 60 kB of metadata": {4000, func(ctx context.Context, h *hoarder, i int) error {
		_, err := probepb.NewProbeClient(h.at(i)).Echo(metadata.AppendToOutgoingContext(ctx, "much", much), &probepb.Blob{})
		return err
	}, true},
	"queued calls of a few bytes": {8000, func(ctx context.Context, h *hoarder, i int) error {
		_, err := probepb.NewProbeClient(h.at(i)).Echo(ctx, &probepb.Blob{})
		return err
	}, false},
	"unfinished parts on ten links": {10, unfinished, true},
}

var (
	large = &probepb.Blob{Data: make([]byte, 4<<20-100)}
	much  = strings.Repeat("m", 60_000)
)

// at returns the connection for calls of the i-th object.
func (h *hoarder) at(i int) keyed {
	if i %= 32; i < 16 {
		return keyed{h.conn, h.here[i]}
	}
	return keyed{h.conn, h.away[i-16]}
}

func (h *hoarder) download(ctx context.Context, key string, bytes int64) error {
	_, err := probepb.NewProbeClient(keyed{h.conn, key}).Download(ctx, &probepb.DownloadRequest{Bytes: bytes})
	if err != nil {
		return err
	}
	<-ctx.Done() // only reading the stream would show why it has ended
	return ctx.Err()
}

// ends records why a request ended.
func (h *hoarder) ends(ctx context.Context, err error) {
	switch {
	case status.Code(err) == codes.ResourceExhausted:
		h.refused.Add(1)
	case err != nil && ctx.Err() == nil:
		h.failed.Add(1)
	}
}

// unfinished sends 64 calls in interleaved parts, all but the last part of each.
func unfinished(ctx context.Context, h *hoarder, _ int) error {
	stream, err := objectspb.NewObjectsClient(h.conn).Link(ctx)
	if err != nil {
		return err
	}
	var sender sync.WaitGroup
	defer sender.Wait()
	sender.Go(func() { sendUnfinished(ctx, h, stream) })
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		h.refused.Add(int64(len(m.GetReplies()))) // nothing else is answered
	}
}

func sendUnfinished(ctx context.Context, h *hoarder, stream objectspb.Objects_LinkClient) {
	err := stream.Send(&objectspb.LinkRequest{Hello: &objectspb.Hello{Prefix: h.prefix}})
	parts := func(size int, begin bool) {
		for id := uint64(1); err == nil && id <= 64; id++ {
			call := &objectspb.Call{Id: id, Request: large.Data[:size], More: true}
			if begin {
				call.Method, call.Key = probepb.Probe_Echo_FullMethodName, []byte(h.here[0])
			}
			err = stream.Send(&objectspb.LinkRequest{Calls: []*objectspb.Call{call}})
		}
	}
	for part := range 15 {
		parts(256<<10, part == 0)
	}
	again := time.NewTicker(10 * time.Second) // otherwise the parts are dropped
	defer again.Stop()
	for err == nil {
		select {
		case <-again.C:
			parts(1, false)
		case <-ctx.Done():
			return
		}
	}
}

// shared is a codec that encodes all messages as the same large memory.
type shared struct{}

var sharedBytes = func() mem.BufferSlice {
	raw, _ := proto.Marshal(large) // it has no text that could be invalid
	return mem.BufferSlice{mem.SliceBuffer(raw)}
}()

// Name implements encoding.CodecV2.
func (shared) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (shared) Marshal(any) (mem.BufferSlice, error) { return sharedBytes, nil }

// Unmarshal implements encoding.CodecV2.
func (shared) Unmarshal(mem.BufferSlice, any) error { return nil }
