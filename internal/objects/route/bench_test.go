package route

import (
	"context"
	"testing"

	"github.com/goverse/goverse/internal/test/probepb"
)

// BenchmarkInvokeLocal measures calls of an object of this node, from the caller's connection to its method and back.
func BenchmarkInvokeLocal(b *testing.B) {
	p := &part{}
	p.serves.Store(true)
	r := router(b, p, adder{})
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, ctx := range map[string]context.Context{"endless": context.Background(), "cancellable": cancellable} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var reply probepb.AddResponse
				if err := r.Invoke(ctx, "alice", probepb.Probe_Add_FullMethodName, &probepb.AddRequest{Amount: 1},
					&reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type adder struct {
	probepb.UnimplementedProbeServer
}

func (adder) Add(_ context.Context, req *probepb.AddRequest) (*probepb.AddResponse, error) {
	return &probepb.AddResponse{Sum: req.GetAmount()}, nil
}
